"""Which model a job trains, and what shape it has."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from lucid_pipelines.advisor.evaluator.classes import is_network
from lucid_pipelines.advisor.evaluator.trace import CallEvent, InstanceEvent
from lucid_pipelines.advisor.evaluator.values import Lit, Origin, Seq, Sym, Value
from lucid_pipelines.advisor.fields.choice import (
    Pick,
    pick_setting,
    pick_to_field,
    positive_whole,
    to_field,
)
from lucid_pipelines.advisor.fields.facts import JobFacts, last_name
from lucid_pipelines.advisor.fields.names import MODEL, MODEL_LAYERS, MODEL_WIDTH, SEQUENCE_LENGTH, WORKERS
from lucid_pipelines.advisor.fields.settings_table import Trust, is_other_phase, normal_name
from lucid_pipelines.advisor.fields.vocabulary import (
    dataset_of,
    family_of,
    family_word,
    is_generic,
    is_placeholder,
    last_part,
)
from lucid_pipelines.advisor.metadata import FieldName, FieldValue, Missing, SourceKind

_CLEAR_NAMES = MODEL[:20]
_VAGUE_NAMES = MODEL[20:]
_MODEL_VARIABLE = re.compile(
    r"^(model|net|network|netg|net_g|generator|g|student|backbone|encoder|agent|policy|classifier|"
    r"unet|lit_model|module|gpt|vae|learner|nn|cnn|rnn|transformer|ae|m|model_engine|raw_model|vit|"
    r"resnet|g_model|dit|algo|trainer_model|detector)$", re.IGNORECASE)  # fmt: skip
_FACTORIES = frozenset({"from_pretrained", "create_model", "get_model", "build_model", "from_name", "load_model",
    "from_config", "hub.load", "load"})  # fmt: skip
_NOT_MODELS = re.compile(
    r"(loss|criterion|dataset|loader|optimi|schedul|sampler|tokeniz|metric|callback|logger|transform|"
    r"wrapper|dataparallel|embedding$|parallel|discriminator|head$|layer$|block$|scaler|ema$|trainer|"
    r"config|accuracy|featur|augment|mixup|norm$|dropout|meter|buffer|lambda|module$|"
    r"lightning)", re.IGNORECASE)  # fmt: skip
_METHODS = (
    "clip",
    "dinov2",
    "dino",
    "mae",
    "moco",
    "simclr",
    "byol",
    "simsiam",
    "swav",
    "ibot",
    "beit",
    "simmim",
    "dreambooth",
)


@dataclass(slots=True)
class Named:
    """A candidate for the model's name."""

    text: str
    lit: Lit
    confidence_frac: float
    strength: int


def read_model(facts: JobFacts) -> None:
    """Fill in ``model`` and ``model_type``."""
    candidates = [*_from_settings(facts), *_from_launch_words(facts), *_from_program(facts), *_from_place(facts)]
    if not candidates:
        facts.put(FieldName.MODEL, Missing("no model name was found"))
        return
    best = _most_specific(max(candidates, key=_weight), candidates)
    text = _with_adapter(facts, _with_method(facts, best.text))
    facts.put(FieldName.MODEL, to_field(text, [best.lit], best.confidence_frac))
    family = family_of(text)
    if family is not None:
        facts.put(FieldName.MODEL_TYPE, to_field(family.kind, [best.lit], best.confidence_frac * 0.95))


def _weight(candidate: Named) -> int:
    """Strength; a name that no known family has counts less than one that it has."""
    if family_of(candidate.text) is not None:
        return candidate.strength
    if dataset_of(candidate.text) is not None:
        # A run that is named after its data.
        return candidate.strength - 62
    return candidate.strength - (0 if candidate.strength >= 96 else 45)


def _most_specific(best: Named, candidates: list[Named]) -> Named:
    """A longer name of the same model: ``swin_tiny_patch4_window7_224`` for ``swin``."""
    plain = _letters(best.text)
    if len(plain) < 2:
        return best
    longer = [
        each
        for each in candidates
        if each.strength >= 40
        and len(each.text) <= 60
        and plain in _letters(each.text)
        and _letters(each.text) != plain
        and re.search(r"\d|tiny|small|base|large|huge|mini|medium|nano|xl", each.text.lower()[len(best.text) // 2 :])
    ]
    family = family_of(best.text)
    if not longer and family is not None and not _SIZE.search(best.text):
        longer = [
            each
            for each in candidates
            if each.strength >= 60
            and _SIZE.search(each.text)
            and (known := family_of(each.text)) is not None
            and known.name == family.name
        ]
    if not longer:
        return best
    chosen = max(longer, key=lambda each: each.strength)
    return Named(chosen.text, chosen.lit, min(best.confidence_frac, chosen.confidence_frac), best.strength)


_SIZE = re.compile(r"\d(?:\.\d+)?[bm](?![a-z])", re.IGNORECASE)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


_NESTED_MODEL = re.compile(
    r"(^|\.)(model|net|network|arch|backbone|module|student|generator|decoder|encoder|agent|policy|"
    r"lit_model|model_config|model_cfg|architecture)\.(_component_|_target_|"
    r"class_path|type|_name_|name|_name|model_type|arch|identifier|"
    r"pretrained_model_name_or_path|model_name|config|hf_config_path|model_id)$"
)


def _from_nested(facts: JobFacts) -> list[Named]:
    """``model: {_target_: package.Class}`` and its kin in configurations."""
    found: list[Named] = []
    for setting in facts.table.settings:
        if setting.level < 2 or not isinstance(setting.initial.value, str):
            continue
        match = _NESTED_MODEL.search(setting.path)
        if match is None or is_other_phase(setting.path):
            continue
        text = _model_text(setting.initial.value)
        if text is None:
            continue
        if re.search(r"(Module|System|Wrapper|Task|Experiment|Learner|Trainer)$", text) and family_of(text) is None:
            found.append(Named(text, setting.initial, 0.6, 40))
            continue
        family = family_of(text)
        outer = setting.path.count(".") <= 1 and not re.search(
            r"(Module|System|Wrapper|Task|Experiment|Learner|Trainer)$", text
        )
        strength = (
            84
            + (14 if family is not None else -10)
            + (4 if outer else 0)
            - (8 if match.group(2) in ("encoder", "decoder", "backbone") else 0)
        )
        found.append(Named(text, setting.initial, 0.88, strength))
    return found


def _from_settings(facts: JobFacts) -> list[Named]:
    found: list[Named] = _from_nested(facts)
    for names, start in ((_CLEAR_NAMES, 60), (_VAGUE_NAMES, 20)):
        for place, name in enumerate(names):
            # A backbone is part of a model: its name counts when nothing names the whole.
            base = start - 56 if name == "backbone" else start
            for setting in facts.table.named(name):
                if is_other_phase(setting.path) or not isinstance(setting.initial.value, str) or setting.level < 1:
                    continue
                if setting.trust <= Trust.ASSIGNMENT and setting.level != 2:
                    continue
                path = normal_name(setting.path)
                if re.search(
                    r"(token|teacher|ref_|reward|loss|callback|logger|optim|sched|dataset|data\.|"
                    r"wandb|draft|judge|critic|processor|clip_model|vae_|text_encoder|discriminator)",
                    path,
                ):
                    continue
                text = _model_text(setting.initial.value)
                if text is None:
                    continue
                family = family_of(text)
                if names is _VAGUE_NAMES and (
                    family is None or (name in ("name", "model_size") and "model" not in path)
                ):
                    continue
                strength = base + setting.level * 12 - place // 2 + (14 if family is not None else 0)
                confidence = {3: 0.95, 2: 0.93, 1: 0.85}.get(setting.level, 0.7)
                found.append(Named(text, setting.initial, confidence, strength))
    return found


_RUN_NAME = re.compile(r"(?:^|_)(?:lr|bsz|bs|wd|decay|epochs?|trial|seed|batch)_?\d", re.IGNORECASE)
"""A name that says how a run is set up: that of a run or a folder, not of a model."""


def _model_text(value: str) -> str | None:
    """A setting's value as a model name, ``None`` when it names none."""
    text = value.strip().strip("'\"")
    if not text or len(text) > 120 or "\n" in text or text.count(" ") > 4 or _RUN_NAME.search(text):
        return None
    inner = re.fullmatch(r"[<\[{$]+\s*([\w .\-]+?)\s*[>\]}]+", text)
    if inner is not None:
        return inner.group(1) if family_of(inner.group(1)) is not None else None
    if is_placeholder(text):
        family = family_of(text)
        return last_part(text) if family is not None else None
    if text.startswith(("http:", "https:")):
        text = last_part(text)
    is_file = text.endswith((".yaml", ".yml", ".json", ".py", ".md", ".cfg", ".pt", ".pth", ".gin"))
    if re.match(r"^[\w.\-]+/[\w.\-]+$", text) and not text.startswith(".") and not is_file:
        # A hub name, organisation/model; or a name such as DiT-XL/2.
        return text if not is_generic(text.partition("/")[2]) or family_of(text) is not None else None
    if "/" in text:
        family = family_of(text)
        text = last_part(text) if family is None or family_of(last_part(text)) is not None else text
    if text.endswith((".yaml", ".yml", ".json", ".py", ".md", ".cfg", ".pt", ".pth")):
        text = last_part(text)
    if "." in text and re.fullmatch(r"[\w.]+", text) and not re.search(r"\d\.\d", text):
        text = text.rpartition(".")[2]
    return None if is_generic(text) and family_of(text) is None else text


def _from_launch_words(facts: JobFacts) -> list[Named]:
    """Scripts, configuration files and options on the launch line whose names contain a model's."""
    found: list[Named] = []
    for word in facts.command_words:
        text = str(word.value)
        if text.endswith((".sh", ".slurm", ".sbatch", ".bash")) and family_of(last_part(text)) is not None:
            found.append(Named(_script_name(last_part(text)), word, 0.8, 70))
    args = facts.launch.args if facts.launch is not None else []
    for before, word in zip([None, *args], args, strict=False):
        text = str(word.value)
        option, mark, after = text.partition("=")
        value = after or text
        if not mark and before is not None and str(before.value).startswith("-"):
            option = str(before.value)
        if value.startswith("-") or (
            re.search(r"output|save|log|ckpt|tokeniz|vocab|merge|data|teacher", option)
            and not value.endswith((".yaml", ".yml", ".py", ".json", ".gin", ".toml"))
        ):
            continue
        if re.search(
            r"data|hyp|deepspeed|ds_|zero\d|fsdp|accelerate|tokeniz|vocab|merges",
            posixpath.basename(value),
            re.IGNORECASE,
        ):
            continue
        if re.match(r"[-+]*exp(_?(dir|name|id))?$", option):
            continue
        is_file = re.search(r"\.(ya?ml|json|py|toml|gin|cfg)$|^[\w\-]+/[\w\-/.]+$", value) is not None
        stem = last_part(value)
        value = re.sub(r"\.(ya?ml|json|py|toml|gin|cfg)$", "", value)
        if family_of(stem) is not None and len(stem) <= 60:
            found.append(Named(_clean_stem(stem), word, 0.85 if is_file else 0.75, 78 if is_file else 42))
        elif is_file and family_of(value) is not None and not is_placeholder(value):
            found.append(Named(family_word(value), word, 0.7, 46))
    return found


def _script_name(stem: str) -> str:
    """The model's part of a script's name: ``train_gpt3_175b_distributed`` → ``gpt3_175b``."""
    words = [
        word for word in re.split(r"[_\-.]", stem) if word.lower() not in _SCRIPT_WORDS and dataset_of(word) is None
    ]
    name = "_".join(words)
    return name if family_of(name) is not None else stem


_SCRIPT_WORDS = frozenset({"train", "run", "pretrain", "finetune", "distributed", "multi", "node", "nodes", "gpu",
    "gpus", "slurm", "launch", "script", "single", "start", "job", "sft", "full", "main", "example", "fine", "tune",
    "demo", "kaggle", "sh", "all"})  # fmt: skip


def _clean_stem(stem: str) -> str:
    """Without words of a configuration's name that say how it is trained."""
    stem = re.sub(r"^(?:train|pretrain|finetune|config|run|base)[_\-]+", "", stem, flags=re.IGNORECASE)
    return re.sub(
        r"([_\-]?(?:\d+x?gpus?|\d+gpu|x\d+|v\d+_x\d+|mixed_precision|config|train|pretrain|finetune|sft|"
        r"full|default|from_scratch|1x|3x))+$", "", stem, flags=re.IGNORECASE) or stem  # fmt: skip


def _from_program(facts: JobFacts) -> list[Named]:
    """Networks that the walked program makes."""
    found: list[Named] = []
    for position, event in enumerate(facts.trace.instances[:2_000]):
        named = _from_instance(facts, event, position)
        if named is not None:
            found.append(named)
    named_networks = _named_networks(facts)
    for event in facts.trace.calls[:8_000]:
        named = _from_call(event)
        if named is None:
            continue
        if any(file == event.site.file and first <= event.site.line <= last for file, first, last in named_networks):
            # What a network with a name of its own is made of.
            named.strength -= 20
        found.append(named)
    return found


def _named_networks(facts: JobFacts) -> list[tuple[str, int, int]]:
    """Where the classes of networks stand that the program makes and whose own name is a model's."""
    classes = {id(event.cls): event.cls for event in facts.trace.instances[:2_000]}
    return [
        (cls.module.file, cls.node.lineno, cls.node.end_lineno or cls.node.lineno)
        for cls in classes.values()
        if cls.node is not None and is_network(cls.library_bases()) and family_of(cls.name) is not None
    ]


def _is_algorithm(name: str, target: str) -> bool:
    family = family_of(name)
    is_holder = target.lower() in ("algorithm", "algo", "agent", "policy", "learner", "model")
    return is_holder and family is not None and family.task == "reinforcement learning"


_PARTS = frozenset({"encoder", "decoder", "actor", "critic", "backbone", "head", "projector", "predictor"})
"""Names of parts: what the whole is called is said elsewhere."""


def _from_instance(facts: JobFacts, event: InstanceEvent, position: int) -> Named | None:
    cls = event.cls
    libraries = cls.library_bases()
    is_model = is_network(libraries) or any("LightningModule" in base for base in libraries)
    name = cls.name
    if _is_algorithm(name, event.target or ""):
        # In reinforcement learning the algorithm is the model; its networks are parts.
        lit = Lit(name, Origin(SourceKind.CODE, event.site.file, event.site.line, event.target))
        return Named(name, lit, 0.82, 66)
    if not is_model or name.lower() in _PARTS or (_NOT_MODELS.search(name) and family_of(name) is None):
        return None
    target = event.target or ""
    if not _MODEL_VARIABLE.match(target) and family_of(name) is None:
        return None
    strength = 40 if _MODEL_VARIABLE.match(target) else 22
    strength += (
        8 if target.lower() in ("model", "net", "network", "student", "netg", "generator", "unet", "detector") else 0
    )
    strength += 12 if family_of(name) is not None else 0
    strength -= min(position // 20, 10)
    if re.search(r"(loss|head|block|layer|discriminator|attention|embed)", name, re.IGNORECASE):
        strength -= 20
    lit = Lit(name, Origin(SourceKind.CODE, event.site.file, event.site.line, target or None))
    if is_generic(name) or name.lower() in (
        "mymodel",
        "mynet",
        "basemodel",
        "simplenet",
        "basenet",
        "neuralnetwork",
        "simplemodel",
    ):
        kind = _kind_of_layers(facts, event)
        return None if kind is None else Named(kind, lit, 0.7, strength)
    return Named(name, lit, 0.8 if strength >= 40 else 0.65, strength)


_LAYERS = (
    (re.compile(r"(Transformer|MultiheadAttention)"), "Transformer"),
    (re.compile(r"(LSTM)"), "LSTM"),
    (re.compile(r"(GRU|RNN)"), "RNN"),
    (re.compile(r"(GCNConv|GATConv|SAGEConv|GINConv|GraphConv)"), "GNN"),
    (re.compile(r"Conv\dd?"), "CNN"),
    (re.compile(r"(Linear|Dense)"), "MLP"),
)


def _kind_of_layers(facts: JobFacts, event: InstanceEvent) -> str | None:
    """What a network with a meaningless name is made of."""
    node = event.cls.node
    if node is None:
        return None
    first, last = node.lineno, node.end_lineno or node.lineno
    made = {
        last_name(call.path)
        for call in facts.trace.calls
        if call.site.file == event.cls.module.file and first <= call.site.line <= last
    }
    return next((kind for pattern, kind in _LAYERS if any(pattern.search(name) for name in made)), None)


def _from_call(event: CallEvent) -> Named | None:
    last = last_name(event.path)
    site = event.site
    if last in _FACTORIES or event.path.endswith("hub.load"):
        text = _first_text(event.args, event.kwargs)
        if (
            text is None
            or "tokenizer" in event.path.lower()
            or "processor" in event.path.lower()
            or "config" in event.path.lower()
        ):
            return None
        name = _model_text(text.value) if isinstance(text.value, str) else None
        if name is None or (last in ("load", "get_model", "load_model") and family_of(name) is None):
            return None
        return Named(name, text, 0.85, 52 + (10 if family_of(name) is not None else 0))
    if (
        re.search(r"(^|\.)(models|applications|modeling|networks|nets|backbones)(\.|$)", event.path)
        or "stable_baselines3" in event.path
    ) and (
        family_of(last) is not None
        and "Config" not in last
        and "Weights" not in event.path
        and last.islower() | last[:1].isupper()
    ):
        lit = Lit(last, Origin(SourceKind.CODE, site.file, site.line))
        return Named(last, lit, 0.8, 50)
    return None


def _first_text(args: list[Value], kwargs: dict[str, Value]) -> Lit | None:
    for value in (
        *args[:2],
        *(
            kwargs[key]
            for key in ("pretrained_model_name_or_path", "model_name", "name", "arch", "model_id")
            if key in kwargs
        ),
    ):
        if isinstance(value, Lit) and isinstance(value.value, str):
            return value
    return None


def _from_place(facts: JobFacts) -> list[Named]:
    """The entry's own name and folder, when they name a model."""
    found: list[Named] = []
    title = facts.project_title
    if title is not None and family_of(str(title.value)) is not None:
        found.append(Named(family_word(str(title.value)), title, 0.65, 34))
    if facts.entry is None:
        return found
    stem = posixpath.basename(facts.entry.file).rpartition(".")[0]
    lit = Lit(facts.entry.file, Origin(SourceKind.CODE, facts.entry.file, 1))
    if family_of(stem) is not None:
        found.append(Named(family_word(stem), lit, 0.7, 36))
    parts = [part for part in posixpath.dirname(facts.entry.file).split("/") if part]
    for part in reversed(parts[-3:]):
        if family_of(part) is not None:
            found.append(Named(family_word(part), lit, 0.65, 30))
            break
    return found


def _with_method(facts: JobFacts, text: str) -> str:
    """A backbone trained by a self-supervised method carries the method's name."""
    if facts.entry is None:
        return text
    place = facts.entry.file.lower()
    for method in _METHODS:
        if re.search(rf"(?<![a-z]){method}(?![a-z])", place) and method not in text.lower():
            known = family_of(method)
            return f"{text} ({known.name if known is not None else method})"
    return text


def _with_adapter(facts: JobFacts, text: str) -> str:
    """``(LoRA r16)`` for adapters, which need far less memory than the whole model."""
    if "lora" in text.lower():
        return text
    for setting in facts.table.named("lora_r", "lora_rank", "lora_dim", "lora_attn_dim"):
        rank = positive_whole((setting.final or setting.initial).value)
        if rank is not None and setting.level >= 2:
            return f"{text} (LoRA r{rank})"
    for event in facts.calls("LoraConfig"):
        rank_value = event.kwargs.get("r")
        rank = positive_whole(rank_value.value) if isinstance(rank_value, Lit) else None
        if rank is not None:
            return f"{text} (LoRA r{rank})"
    return text


# ---------------------------------------------------------------------- shape


_NOT_SHAPE = re.compile(
    r"(disc|decoder_|dec_|head|proj|critic|teacher|posterior|duration|flow|pos_|rel_|"
    r"time_|text_|vision_|audio_|adapter|lora|draft|predictor|quant|mlp)"
)


def read_shape(facts: JobFacts) -> None:
    """Fill in sequence length, width, layers and loader workers."""
    for name, names in (
        (FieldName.SEQ_LEN, SEQUENCE_LENGTH),
        (FieldName.D_MODEL, MODEL_WIDTH),
        (FieldName.LAYERS, MODEL_LAYERS),
    ):
        if name is FieldName.SEQ_LEN and facts.table.named("num_beams", "min_length", "beam_size"):
            # With these beside it, max_length is that of generated text.
            names = tuple(each for each in names if each != "max_length")
        picked = pick_setting(
            facts.table, names, _shape_number, avoid=_NOT_SHAPE, use_final=True, minimum_trust=Trust.LOOSE
        )
        if (
            isinstance(picked, Pick)
            and picked.setting is not None
            and (picked.setting.level >= 2 or _is_model_setting(picked))
        ):
            facts.put(name, pick_to_field(picked))
        elif isinstance(picked, Missing):
            facts.put(name, picked)
    facts.put(FieldName.WORKERS, _workers(facts))


def _shape_number(value: object) -> int | None:
    if isinstance(value, str):
        return None
    number = positive_whole(value)
    return number if number is not None and 1 < number <= 10_000_000 else None


def _is_model_setting(picked: Pick) -> bool:
    setting = picked.setting
    return setting is not None and (setting.trust is Trust.INSTANCE or setting.trust is Trust.PARSED)


def _workers(facts: JobFacts) -> FieldValue | Missing:
    def count(value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if 0 <= value <= 512 else None

    picked = pick_setting(facts.table, WORKERS, count)
    if isinstance(picked, Pick) and picked.setting is not None and picked.setting.trust > Trust.ASSIGNMENT:
        return pick_to_field(picked)
    loaders = [event for event in facts.calls("DataLoader") if _loads_training(event)]
    for event in loaders:
        value = event.kwargs.get("num_workers")
        if isinstance(value, Lit) and count(value.value) is not None:
            return to_field(int(str(value.value)), [value], 0.85)
    if isinstance(picked, Pick):
        return pick_to_field(picked)
    return picked if isinstance(picked, Missing) else Missing("no number of loader workers was found")


def _loads_training(event: CallEvent) -> bool:
    """Whether a loader may be that of the training data: it shuffles, or nothing says otherwise."""
    shuffle = event.kwargs.get("shuffle")
    if isinstance(shuffle, Lit):
        return bool(shuffle.value) or any(key in event.kwargs for key in ("sampler", "batch_sampler"))
    return True


def names_of(value: Value) -> list[str]:
    """Texts inside a value."""
    if isinstance(value, Lit):
        return [str(value.value)]
    if isinstance(value, Seq):
        return [str(item.value) for item in value.items if isinstance(item, Lit)]
    return [value.path] if isinstance(value, Sym) else []
