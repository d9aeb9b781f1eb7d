"""A job as a short text that says what it computes, on what, and how much of it (paper section 12).

Neither the job's name nor a path is in it: a renamed copy has the same fingerprint, and a job of the same
name with another model has another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lucid_pipelines.advisor.fields.vocabulary import dataset_of, family_of
from lucid_pipelines.advisor.metadata import FieldName, JobMetadata, Scalar
from lucid_pipelines.domain.similarity import HistoryFilter, content_digest, gpu_count_class, gpu_family

SCHEMA_VERSION = 1
"""Raised when the text's form changes: vectors of two versions are never compared (R-41)."""

FIELD_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "model": 0.26,
        "model family": 0.05,
        "dataset": 0.14,
        "iterations": 0.16,
        "batch size": 0.08,
        "task": 0.05,
        "sequence length": 0.05,
        "layers": 0.03,
        "width": 0.03,
        "precision": 0.03,
        "gpu type": 0.03,
        "gpus": 0.03,
        "optimizer": 0.02,
        "accumulation": 0.01,
        "learning rate": 0.01,
        "framework": 0.01,
        "cuda": 0.005,
        "data scale": 0.04,
    }
)
"""Share of each line in the similarity of two jobs that have all of them: what moves the run time most leads."""

MIN_KNOWN_FRAC = 0.35
"""Below this share of known lines two jobs resemble each other for want of facts."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the cluster knows of a job, beyond its code.

    Attributes:
        gpu_type: name of the GPU that it asks for or will get.
        gpus: GPUs in all.
        software: versions found where it will run, e.g. ``{"torch": "2.4.0", "cuda": "12.4"}``.
        data_scale: size of its data where known: a number and its unit, e.g. ``(1_281_167, "samples")``.
    """

    gpu_type: str | None = None
    gpus: int | None = None
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    data_scale: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The text of a job and what its past likes must match.

    Attributes:
        text: sorted lines ``name: value``.
        known_frac: share of the weights whose line is there, 0 to 1.
    """

    text: str
    known_frac: float
    task_type: str | None
    gpu_type: str | None
    gpus: int | None

    @property
    def digest(self) -> str:
        return content_digest(self.text)

    @property
    def is_telling(self) -> bool:
        """Whether enough is known for similarity to mean anything."""
        return self.known_frac >= MIN_KNOWN_FRAC

    @property
    def hard_filter(self) -> HistoryFilter:
        """What must match before similarity is looked at: task, GPU family, class of GPU counts."""
        return HistoryFilter(self.task_type, gpu_family(self.gpu_type), gpu_count_class(self.gpus))


def fingerprint(metadata: JobMetadata, surroundings: Surroundings | None = None) -> Fingerprint:
    """The fingerprint of a job whose code was read."""
    return fingerprint_of({name: value.value for name, value in metadata.fields.items()}, surroundings)


def fingerprint_of(facts: Mapping[FieldName, Scalar], surroundings: Surroundings | None = None) -> Fingerprint:
    """The fingerprint of facts that came from anywhere: a trace, a form, a reading of code."""
    around = surroundings or Surroundings()
    gpus = around.gpus if around.gpus is not None else _gpus(facts)
    lines = {name: value for name, value in _lines(facts, around, gpus).items() if value}
    known = sum(FIELD_WEIGHTS[name] for name in lines) / sum(FIELD_WEIGHTS.values())
    text = "\n".join(f"{name}: {lines[name]}" for name in sorted(lines))
    task = facts.get(FieldName.TASK_TYPE)
    return Fingerprint(text, known, None if task is None else str(task), around.gpu_type, gpus)


def canonical_name(name: str) -> str:
    """A model's or dataset's name without its owner, in one spelling.

    ``meta-llama/Llama-3-8B`` and ``llama_3_8b`` become ``llama3-8b``; ``ResNet-50`` becomes ``resnet50``.
    """
    plain = re.sub(r"\s+", "-", name.strip().rstrip("/").rpartition("/")[2].lower())
    plain = re.sub(r"[_\-]+", "-", plain).strip("-")
    return re.sub(r"(?<=[a-z])-(?=\d)", "", plain)


def _lines(facts: Mapping[FieldName, Scalar], around: Surroundings, gpus: int | None) -> dict[str, str | None]:
    model, dataset = facts.get(FieldName.MODEL), facts.get(FieldName.DATASET)
    family = family_of(str(model)) if model is not None else None
    return {
        "model": None if model is None else canonical_name(str(model)),
        "model family": _model_family(family.name if family else None, facts.get(FieldName.MODEL_TYPE)),
        "dataset": None if dataset is None else _dataset(str(dataset)),
        "iterations": _iterations(facts),
        "batch size": _number(facts.get(FieldName.BATCH_SIZE)),
        "task": _word(facts.get(FieldName.TASK_TYPE)),
        "sequence length": _number(facts.get(FieldName.SEQ_LEN)),
        "layers": _number(facts.get(FieldName.LAYERS)),
        "width": _number(facts.get(FieldName.D_MODEL)),
        "precision": _word(facts.get(FieldName.PRECISION)),
        "gpu type": gpu_family(around.gpu_type),
        "gpus": None if gpus is None else str(gpus),
        "optimizer": _word(facts.get(FieldName.OPTIMIZER)),
        "accumulation": _number(facts.get(FieldName.GRAD_ACCUMULATION)),
        "learning rate": _number(facts.get(FieldName.LEARNING_RATE)),
        "framework": _framework(facts, around),
        "cuda": _minor(around.software.get("cuda") or _text(facts.get(FieldName.CUDA_VERSION))),
        "data scale": None if around.data_scale is None else f"{_number(around.data_scale[0])} {around.data_scale[1]}",
    }


def _gpus(facts: Mapping[FieldName, Scalar]) -> int | None:
    total = facts.get(FieldName.GPUS_TOTAL)
    if isinstance(total, int) and not isinstance(total, bool):
        return total
    per_node, nodes = facts.get(FieldName.GPUS_PER_NODE), facts.get(FieldName.NODES)
    if isinstance(per_node, int) and isinstance(nodes, int):
        return per_node * nodes
    return None


def _model_family(family: str | None, kind: Scalar | None) -> str | None:
    return " ".join(canonical_name(word) for word in (family, _text(kind)) if word) or None


def _dataset(name: str) -> str:
    known = dataset_of(name)
    return canonical_name(known.name if known is not None else name)


def _iterations(facts: Mapping[FieldName, Scalar]) -> str | None:
    count = _number(facts.get(FieldName.ITERATIONS))
    kind = facts.get(FieldName.ITERATION_TYPE)
    return None if count is None else f"{count} {kind}" if kind is not None else count


def _framework(facts: Mapping[FieldName, Scalar], around: Surroundings) -> str | None:
    name = _text(facts.get(FieldName.FRAMEWORK))
    known = {"pytorch": "torch"}.get(name or "", name or "")
    version = around.software.get(known) or _text(facts.get(FieldName.FRAMEWORK_VERSION))
    return " ".join(part for part in (name, _minor(version)) if part) or None


def _minor(version: str | None) -> str | None:
    """``2.4.1+cu124`` as ``2.4``: a patch release rarely changes a run time."""
    match = re.search(r"\d+(?:\.\d+)?", version) if version else None
    return match.group(0) if match else None


def _number(value: Scalar | None) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return f"{value:.6g}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def _word(value: Scalar | None) -> str | None:
    text = _text(value)
    return None if text is None else " ".join(text.lower().split())


def _text(value: Scalar | None) -> str | None:
    return None if value is None else str(value)
