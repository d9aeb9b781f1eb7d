"""Put a model's verified claims beside what was read statically. Static evidence wins; disagreement is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from lucid_pipelines.advisor.agent.actions import Claim
from lucid_pipelines.advisor.agent.tools import Tools
from lucid_pipelines.advisor.agent.verify import code_line, iteration_type, verified
from lucid_pipelines.advisor.metadata import (
    Disagreement,
    Evidence,
    FieldName,
    FieldValue,
    JobMetadata,
    Scalar,
    SourceKind,
)

VERIFIED_CONFIDENCE = 0.5
"""The value stands in code; that this is the place which decides is the model's word."""
UNVERIFIED_CONFIDENCE = 0.3
"""A task type is a judgement: no line proves it."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A claim that was not taken."""

    claim: Claim
    why: str


def completed(
    static: JobMetadata, claims: Sequence[Claim], tools: Tools
) -> tuple[JobMetadata, int, tuple[Rejection, ...]]:
    """Fill gaps with claims that hold.

    Returns:
        The metadata, how many fields were filled, and those that were not.
    """
    rejections: list[Rejection] = []
    disagreements = list(static.disagreements)
    taken: dict[FieldName, FieldValue] = {}
    doubtful = _contradicting(claims)
    for claim in claims:
        name = claim.field_name
        if name in static.fields:
            kept = static.fields[name].value
            if not same(kept, claim.value):
                disagreements.append(Disagreement(name, kept, "static", claim.value, "language_model"))
            continue
        why = "the answer names two values for this field" if name in doubtful else verified(claim, tools)
        if why is not None:
            rejections.append(Rejection(claim, why))
        elif name not in taken:
            taken[name] = _value(claim, tools)
    kind = _counted(taken.get(FieldName.ITERATIONS), tools)
    if kind is not None and FieldName.ITERATION_TYPE not in static.fields:
        taken[FieldName.ITERATION_TYPE] = kind
    merged = replace(
        static,
        fields=MappingProxyType({**static.fields, **taken}),
        missing=MappingProxyType({name: why for name, why in static.missing.items() if name not in taken}),
        disagreements=tuple(disagreements),
    )
    return merged, len(taken), tuple(rejections)


def _contradicting(claims: Sequence[Claim]) -> set[FieldName]:
    """Fields for which one answer names two values: neither is more than a guess."""
    first: dict[FieldName, Scalar] = {}
    return {c.field_name for c in claims if not same(first.setdefault(c.field_name, c.value), c.value)}


def same(one: Scalar, other: Scalar) -> bool:
    """Whether two answers say the same."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(float(one) - float(other)) <= 1e-9 * max(abs(float(one)), abs(float(other)))
    return str(one).strip().lower() == str(other).strip().lower()


def _value(claim: Claim, tools: Tools) -> FieldValue:
    file = tools.tree.relative(claim.file) or claim.file
    is_judgement = claim.field_name is FieldName.TASK_TYPE
    text = None if is_judgement else code_line(tools.tree, file, claim.line).strip()[:120]
    evidence = Evidence(SourceKind.LANGUAGE_MODEL, file, claim.line, None, text)
    confidence = UNVERIFIED_CONFIDENCE if is_judgement else VERIFIED_CONFIDENCE
    return FieldValue(claim.value, SourceKind.LANGUAGE_MODEL, confidence, (evidence,))


def _counted(iterations: FieldValue | None, tools: Tools) -> FieldValue | None:
    """The iteration type that the accepted line's own name tells."""
    if iterations is None:
        return None
    place = iterations.evidence[0]
    kind = iteration_type(code_line(tools.tree, place.file, place.line or 0))
    return None if kind is None else replace(iterations, value=kind.value)
