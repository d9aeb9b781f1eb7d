"""What kind of task a job trains for, and with which framework."""

from __future__ import annotations

import re

from lucid_pipelines.advisor.evaluator.values import Lit, Origin
from lucid_pipelines.advisor.fields.choice import to_field
from lucid_pipelines.advisor.fields.facts import JobFacts, last_name
from lucid_pipelines.advisor.fields.vocabulary import Dataset, Family, dataset_of, family_of
from lucid_pipelines.advisor.metadata import Evidence, FieldName, FieldValue, Missing, SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

_FRAMEWORKS = (
    ("pytorch", ("torch",)), ("jax", ("jax", "flax", "optax", "haiku")), ("tensorflow", ("tensorflow", "keras",
        "tf_keras")),
    ("paddle", ("paddle",)), ("mxnet", ("mxnet",)), ("mindspore", ("mindspore",)), ("oneflow", ("oneflow",)),
)  # fmt: skip
_IMPLIED = {"transformers": "pytorch", "pytorch_lightning": "pytorch", "lightning": "pytorch",
    "torchvision": "pytorch", "deepspeed": "pytorch", "accelerate": "pytorch", "composer": "pytorch",
    "stable_baselines3": "pytorch", "speechbrain": "pytorch", "fairseq": "pytorch", "t5x": "jax", "seqio": "jax",
    "detectron2": "pytorch", "mmengine": "pytorch"}  # fmt: skip
_PACKAGES = {"pytorch": "torch", "jax": "jax", "tensorflow": "tensorflow", "paddle": "paddlepaddle"}
_TASK_WORDS: tuple[tuple[str, str], ...] = (
    (r"(?<![a-z])(dpo|orpo|kto|simpo|preference|reward_model|rlhf|grpo)(?![a-z])", "preference optimisation"),
    (r"(?<![a-z])(sft|instruct|instruction|alpaca|chat|finetune_lora|lora_finetune)(?![a-z])", "instruction tuning"),
    (r"(?<![a-z])(ctr|click)(?![a-z])", "click-through prediction"),
    (r"(?<![a-z])(asr|speech_recognition|ctc|transducer)(?![a-z])", "speech recognition"),
    (r"(?<![a-z])(tts|text_to_speech|vocoder)(?![a-z])", "text to speech"),
    (r"(?<![a-z])(multi_pose|pose|keypoints?)(?![a-z])", "pose estimation"),
    (r"(?<![a-z])(instance_?segmentation)(?![a-z])", "instance segmentation"),
    (r"(?<![a-z])(segmentation|semseg|seg)(?![a-z])", "semantic segmentation"),
    (r"(?<![a-z])(detection|detector|det)(?![a-z])", "object detection"),
    (r"(?<![a-z])(translation|nmt|wmt)(?![a-z])", "machine translation"),
    (r"(?<![a-z])(summari[sz]ation)(?![a-z])", "summarisation"),
    (r"(?<![a-z])(question[_\-]?answering|squad|run_qa)(?![a-z])", "question answering"),
    (r"(?<![a-z])(token[_\-]?classification|ner)(?![a-z])", "token classification"),
    (r"(?<![a-z])(text[_\-]?classification|run_glue|glue)(?![a-z])", "text classification"),
    (r"(?<![a-z])(run_mlm|masked_lm|mlm)(?![a-z])", "masked language modelling"),
    (r"(?<![a-z])(run_clm|causal_lm|clm|language[_\-]?model(?:l?ing)?|lm|pretrain_gpt|word_language_model)(?![a-z])",
        "language modelling"),
    (r"(?<![a-z])(reinforcement|rl|gym|atari|mujoco)(?![a-z])", "reinforcement learning"),
    (r"(?<![a-z])(recommend\w*|recbole|collaborative)(?![a-z])", "recommendation"),
    (r"(?<![a-z])(text_to_image|text2image|dreambooth|image_generation|unconditional)(?![a-z])", "image generation"),
    (r"(?<![a-z])(image[_\-]?classification)(?![a-z])", "image classification"),
)  # fmt: skip
_TUNED = re.compile(r"alpaca|sharegpt|dolly|oasst|ultrachat|instruct|guanaco", re.IGNORECASE)


def read_task(facts: JobFacts) -> None:
    """Fill in ``task_type`` from what is known of the model, the data and the program's own words."""
    facts.put(FieldName.TASK_TYPE, _task(facts))


def _task(facts: JobFacts) -> FieldValue | Missing:
    model = facts.found.get(FieldName.MODEL)
    dataset = facts.found.get(FieldName.DATASET)
    family = _task_family(str(model.value)) if model is not None else None
    known = dataset_of(str(dataset.value)) if dataset is not None else None
    stage = _stage(facts)
    if family is not None and family.name == "U-Net" and _speaks_of(facts, r"diffusion|ddpm|score[_\-]?sde|denoising"):
        return _basis("image generation", facts, FieldName.MODEL, 0.85)
    if family is not None and family.task == "reinforcement learning":
        return _basis(family.task, facts, FieldName.MODEL, 0.9)
    if stage is not None:
        return stage
    model_task = family.task if family is not None else None
    if model_task == "masked language modelling" and not _pretrains(facts):
        # An encoder is trained for its usual task once; mostly it is tuned for another one.
        return _from_words(facts) or _of_data(facts, known) or Missing("an encoder that is tuned; for what is not said")
    data_task = known.task if known is not None else None
    if data_task == "instruction tuning" or (
        model_task == "language modelling" and dataset is not None and _TUNED.search(str(dataset.value))
    ):
        return _basis("instruction tuning", facts, FieldName.DATASET, 0.88)
    if model_task is not None and data_task is not None and model_task != data_task:
        return _reconciled(facts, model_task, data_task, family.kind if family is not None else "")
    if model_task == "image classification" and _supervises_itself(facts):
        return _basis("self-supervised vision", facts, FieldName.MODEL, 0.8)
    if model_task is not None:
        words = _from_words(facts)
        if (
            words is not None
            and words.value != model_task
            and data_task is None
            and _general(family.kind if family else "")
        ):
            return words
        return _basis(model_task, facts, FieldName.MODEL, 0.85)
    found = _of_data(facts, known) or _from_words(facts)
    return found or Missing("neither the model nor the data say which task this is")


def _of_data(facts: JobFacts, known: Dataset | None) -> FieldValue | None:
    """The usual task of the data, unless the program's words name another one that it is used for."""
    if known is None or known.task is None:
        return None
    words = _from_words(facts) if known.task in ("object detection", "image classification") else None
    if words is not None and words.value in _SAME_PICTURES:
        return words
    if known.task == "image classification" and _generates(facts):
        return _basis("image generation", facts, FieldName.DATASET, 0.8)
    return _basis(known.task, facts, FieldName.DATASET, 0.85)


_SAME_PICTURES = ("pose estimation", "instance segmentation", "semantic segmentation", "image generation")
"""Tasks that share their data sets with object detection and image classification."""
_GENERATES = r"diffusion|ddpm|score[_\-]?sde|denoising|generative|(?<![a-z])gans?(?![a-z])|consistency[_\- ]model"


def _supervises_itself(facts: JobFacts) -> bool:
    """A project that calls itself self-supervised, in a program that is not its evaluation."""
    entry = facts.entry.file if facts.entry is not None else ""
    title = str(facts.project_title.value) if facts.project_title is not None else ""
    evaluates = re.search(r"lin(ear|cls)?(_|\.|$)|eval|finetune|fine_tune|semi|knn|probe", entry, re.IGNORECASE)
    return evaluates is None and re.search(r"self[-_ ]?supervised", title, re.IGNORECASE) is not None


def _generates(facts: JobFacts) -> bool:
    return _speaks_of(facts, _GENERATES) or "diffusers" in facts.trace.imports


def _pretrains(facts: JobFacts) -> bool:
    if _speaks_of(facts, r"pre_?train|mlm|masked"):
        return True
    words = " ".join(
        str(word.value) for word in [*facts.command_words, *(facts.launch.args[:6] if facts.launch else [])]
    )
    return re.search(r"pre_?train|mlm|masked", words, re.IGNORECASE) is not None or any(
        re.search(r"MaskedLM|ForPreTraining|WholeWordMask", event.path) for event in facts.trace.calls
    )


def _task_family(text: str) -> Family | None:
    """The family that says the task: a method in brackets before the backbone it trains."""
    match = re.search(r"\(([^()]+)\)", text)
    method = family_of(match.group(1)) if match is not None else None
    if method is not None and method.task is not None:
        return method
    for part in re.split(r"[\s_]", text):
        known = family_of(part)
        if known is not None and known.task is not None and known.task.startswith(("self-supervised", "contrastive")):
            return known
    return family_of(text)


def _speaks_of(facts: JobFacts, pattern: str) -> bool:
    """Whether the entry's path, the project's title or its walked modules' names contain a word."""
    places = [
        facts.entry.file if facts.entry is not None else "",
        str(facts.project_title.value) if facts.project_title else "",
    ]
    if facts.machine is not None:
        places.extend(module.file for module in facts.machine.modules.walked())
    return any(re.search(pattern, place, re.IGNORECASE) for place in places)


def _general(kind: str) -> bool:
    return kind in ("transformer", "rnn", "cnn", "ssm")


def _reconciled(facts: JobFacts, model_task: str, data_task: str, kind: str) -> FieldValue:
    """A self-supervised or generative model keeps its task on any data; a backbone takes that of the data."""
    if model_task.startswith(("self-supervised", "contrastive", "image generation", "instance", "object", "semantic",
        "text to speech", "novel", "vision-language", "click", "recommendation", "image translation",
        "super")):  # fmt: skip
        return _basis(model_task, facts, FieldName.MODEL, 0.85)
    if data_task == "masked language modelling" and model_task == "language modelling":
        return _basis(model_task, facts, FieldName.MODEL, 0.85)
    del kind
    return _basis(data_task, facts, FieldName.DATASET, 0.82)


def _basis(task: str, facts: JobFacts, source: FieldName, confidence: float) -> FieldValue:
    found = facts.found[source]
    return FieldValue(
        task,
        found.kind,
        round(confidence * found.confidence_frac, 3),
        found.evidence[:1],
        f"the usual task of this {source.value}",
    )


def _stage(facts: JobFacts) -> FieldValue | None:
    """Fine-tuning stages say what they are: ``stage: sft``, ``dpo``, ``lora_finetune``."""
    for setting in facts.table.named("stage", "finetuning_type", "rl", "task", "train_type", "training_type"):
        text = str(setting.initial.value).lower()
        if setting.level >= 2 and text in ("sft", "pt", "rm", "ppo", "dpo", "kto", "orpo", "simpo", "grpo"):
            task = {"sft": "supervised fine-tuning", "pt": "language modelling"}.get(text, "preference optimisation")
            return to_field(task, [setting.initial], 0.9)
    launch = facts.launch
    words = (
        " ".join([launch.target, *(str(word.value) for word in launch.args[:4])]).lower() if launch is not None else ""
    )
    match = re.search(r"(?<![a-z])(sft|dpo|kto|orpo|grpo|lora_finetune\w*|full_finetune\w*|qlora)(?![a-z])", words)
    if match is not None and launch is not None:
        text = match.group(1)
        task = "preference optimisation" if text in ("dpo", "kto", "orpo", "grpo") else "supervised fine-tuning"
        word = launch.target_word or Lit(launch.target, Origin(SourceKind.COMMAND_LINE, "<command>", 1))
        return to_field(task, [word], 0.85)
    return None


def _from_words(facts: JobFacts) -> FieldValue | None:
    """Words in the launch line and in the path of the entry."""
    places: list[tuple[str, Lit]] = []
    if facts.entry is not None:
        places.append((facts.entry.file, Lit(facts.entry.file, Origin(SourceKind.CODE, facts.entry.file, 1))))
    if facts.launch is not None:
        places.extend((str(word.value), word) for word in facts.launch.args[:20])
    for text, lit in places:
        for pattern, task in _TASK_WORDS:
            if re.search(pattern, text.lower()):
                return to_field(task, [lit], 0.75)
    for event in facts.trace.calls:
        name = last_name(event.path)
        if name in ("AutoModelForCausalLM", "from_pretrained") and "CausalLM" in event.path:
            return to_field(
                "language modelling", [Lit(event.path, Origin(SourceKind.CODE, event.site.file, event.site.line))], 0.75
            )
        if "SequenceClassification" in event.path:
            return to_field(
                "text classification", [Lit(event.path, Origin(SourceKind.CODE, event.site.file, event.site.line))], 0.8
            )
    return None


# ---------------------------------------------------------------------- framework


def read_framework(facts: JobFacts, tree: SourceTree) -> None:
    """Fill in framework and, where the snapshot pins them, versions."""
    imports = facts.trace.imports
    for name, packages in _FRAMEWORKS:
        for package in packages:
            if package in imports:
                site = imports[package]
                evidence = (Evidence(SourceKind.CODE, site.file, site.line, None, f"import {package}"),)
                facts.put(FieldName.FRAMEWORK, FieldValue(name, SourceKind.CODE, 0.95, evidence))
                _versions(facts, tree, name)
                return
    for package, name in _IMPLIED.items():
        if package in imports:
            site = imports[package]
            evidence = (Evidence(SourceKind.CODE, site.file, site.line, None, f"import {package}"),)
            facts.put(FieldName.FRAMEWORK, FieldValue(name, SourceKind.CODE, 0.85, evidence))
            _versions(facts, tree, name)
            return
    facts.put(FieldName.FRAMEWORK, Missing("no framework is imported in what was read"))


def _versions(facts: JobFacts, tree: SourceTree, framework: str) -> None:
    package = _PACKAGES.get(framework)
    if package is None:
        return
    for file in (
        "requirements.txt",
        "environment.yml",
        "environment.yaml",
        "pyproject.toml",
        "setup.py",
        "requirements/base.txt",
        "Dockerfile",
    ):
        text = tree.read_text(file) if tree.is_file(file) else None
        for number, line in enumerate((text or "").split("\n")[:1_000], 1):
            match = re.search(rf"(?<![\w\-]){package}\s*==?\s*([\d.]+)(?:\+(cu\d+))?", line)
            if match is not None and FieldName.FRAMEWORK_VERSION not in facts.found:
                evidence = (Evidence(SourceKind.CONFIG, file, number, package, match.group(0)),)
                facts.put(FieldName.FRAMEWORK_VERSION, FieldValue(match.group(1), SourceKind.CONFIG, 0.9, evidence))
            cuda = re.search(r"(?:cudatoolkit|cuda-toolkit|pytorch-cuda)\s*=+\s*([\d.]+)|\+cu(\d{2,3})", line)
            if cuda is not None and FieldName.CUDA_VERSION not in facts.found:
                digits = cuda.group(2)
                version = cuda.group(1) or f"{digits[:-1]}.{digits[-1]}"
                evidence = (Evidence(SourceKind.CONFIG, file, number, "cuda", cuda.group(0)),)
                facts.put(FieldName.CUDA_VERSION, FieldValue(version, SourceKind.CONFIG, 0.85, evidence))
