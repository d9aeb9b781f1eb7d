"""What can be read of a training job from its code and launch line: typed, with the place it was read from.

A field that cannot be determined is missing from :class:`JobMetadata`; it is never filled with a guess
(paper section 12; ARCHITECTURE section 10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias


class SourceKind(StrEnum):
    """Where a value comes from, weakest first: a later one overrides an earlier one."""

    LIBRARY = "library"
    """The default of a public library, known by its documentation and not written in the snapshot."""
    DEFAULT = "default"
    """The default of an option: argparse, click, dataclass, function signature, configuration schema."""
    CODE = "code"
    """A literal in the program."""
    CONFIG = "config"
    COMMAND_LINE = "command_line"
    ENVIRONMENT = "environment"
    LAUNCHER = "launcher"
    """Options of the launcher or the batch system, and what the submission itself asks for."""
    COMPUTED = "computed"
    """Calculated from other values: the evidence carries the formula."""
    LANGUAGE_MODEL = "language_model"

    @property
    def rank(self) -> int:
        """Place in the order of precedence, 0 the weakest."""
        return _PRECEDENCE[self]


_PRECEDENCE: Mapping[SourceKind, int] = {
    SourceKind.LANGUAGE_MODEL: 0,
    SourceKind.LIBRARY: 1,
    SourceKind.DEFAULT: 2,
    SourceKind.CODE: 3,
    SourceKind.CONFIG: 4,
    SourceKind.COMMAND_LINE: 5,
    SourceKind.ENVIRONMENT: 6,
    SourceKind.LAUNCHER: 6,
    SourceKind.COMPUTED: 3,
}


class FieldName(StrEnum):
    """The fields of a job's metadata."""

    MODEL = "model"
    MODEL_TYPE = "model_type"
    TASK_TYPE = "task_type"
    DATASET = "dataset"
    ITERATIONS = "iterations"
    ITERATION_TYPE = "iteration_type"
    BATCH_SIZE = "batch_size"
    BATCH_SIZE_PER_DEVICE = "batch_size_per_device"
    GRAD_ACCUMULATION = "grad_accumulation"
    LEARNING_RATE = "learning_rate"
    EFFECTIVE_LEARNING_RATE = "effective_learning_rate"
    OPTIMIZER = "optimizer"
    PRECISION = "precision"
    SEQ_LEN = "seq_len"
    D_MODEL = "d_model"
    LAYERS = "layers"
    WORKERS = "workers"
    GPUS_PER_NODE = "gpus_per_node"
    NODES = "nodes"
    GPUS_TOTAL = "gpus_total"
    FRAMEWORK = "framework"
    FRAMEWORK_VERSION = "framework_version"
    CUDA_VERSION = "cuda_version"


def unicode_text(text: str) -> str:
    """A text that every store and terminal takes: what is no Unicode in a file name or word becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class IterationType(StrEnum):
    """What ``iterations`` counts."""

    EPOCHS = "epochs"
    STEPS = "steps"
    TOKENS = "tokens"
    SAMPLES = "samples"
    ENV_STEPS = "env_steps"
    KIMG = "kimg"


Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """One place that supports a value.

    Attributes:
        file: path inside the snapshot; ``<command>`` for the launch line, ``<environment>``,
            ``<request>`` for what the submission asks for, ``<library>`` for a library's default.
        line: 1 for the first line; ``None`` where lines have no meaning.
        name: the setting as it is written there.
        text: the value as it is written there, shortened.
    """

    kind: SourceKind
    file: str
    line: int | None = None
    name: str | None = None
    text: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        said = " ".join(part for part in (self.name, f"= {self.text}" if self.text else None) if part)
        return f"{place} {said}".strip()


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value that was determined.

    Attributes:
        confidence_frac: how sure the reading is, 0 to 1: a measure of the kind of evidence, not a
            calibrated probability.
        kind: the strongest source that decided it.
        formula: how it was calculated from other values; ``None`` when it was read as it is.
    """

    value: Scalar
    kind: SourceKind
    confidence_frac: float
    evidence: tuple[Evidence, ...]
    formula: str | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a field has no value: ``all visible GPUs``, ``two values of equal standing``, …"""

    reason: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadingReport:
    """What reading cost and what was left out, so that nothing is skipped in silence."""

    wall_s: float
    files_read: int
    bytes_read: int
    steps: int
    entry: str | None
    skipped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()
    stopped_early: str | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two readers of the same job gave different values for one field; the first was kept."""

    field_name: FieldName
    kept: Scalar
    kept_source: str
    rejected: Scalar
    rejected_source: str


@dataclass(frozen=True, slots=True)
class JobMetadata:
    """Everything that was determined, and the reason for each field that was looked for in vain."""

    fields: Mapping[FieldName, FieldValue]
    missing: Mapping[FieldName, Missing]
    report: ReadingReport
    disagreements: tuple[Disagreement, ...] = ()

    def value(self, name: FieldName) -> Scalar | None:
        """The value of a field, or ``None`` when it could not be determined."""
        found = self.fields.get(name)
        return None if found is None else found.value

    def text(self, name: FieldName) -> str | None:
        """A field as text, or ``None``."""
        value = self.value(name)
        return None if value is None else str(value)

    def number(self, name: FieldName) -> float | None:
        """A field as a number, or ``None`` when it is missing or is no number."""
        value = self.value(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
