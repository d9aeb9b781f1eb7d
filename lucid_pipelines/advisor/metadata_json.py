"""A job's metadata as JSON and back: what the command prints and what a boxed reader hands over."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lucid_pipelines.advisor.metadata import (
    Disagreement,
    Evidence,
    FieldName,
    FieldValue,
    JobMetadata,
    Missing,
    ReadingReport,
    SourceKind,
)
from lucid_pipelines.domain.errors import InputError

SCHEMA_VERSION = 1


def to_json(metadata: JobMetadata) -> dict[str, Any]:
    """Metadata as plain data. Keys are added, never renamed."""
    report = metadata.report
    return {
        "schema_version": SCHEMA_VERSION,
        "fields": {name.value: _field_json(value) for name, value in metadata.fields.items()},
        "missing": {name.value: _missing_json(value) for name, value in metadata.missing.items()},
        "disagreements": [
            {
                "field": each.field_name.value,
                "kept": each.kept,
                "kept_source": each.kept_source,
                "rejected": each.rejected,
                "rejected_source": each.rejected_source,
            }
            for each in metadata.disagreements
        ],
        "report": {
            "wall_s": round(report.wall_s, 4),
            "files_read": report.files_read,
            "bytes_read": report.bytes_read,
            "steps": report.steps,
            "entry": report.entry,
            "skipped": dict(report.skipped),
            "notes": list(report.notes),
            "stopped_early": report.stopped_early,
        },
    }


def from_json(data: Mapping[str, Any]) -> JobMetadata:
    """The inverse of :func:`to_json`.

    Raises:
        InputError: another schema version, or data of another form.
    """
    if data.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"metadata of schema version {SCHEMA_VERSION} is understood; got {data.get('schema_version')!r}"
        )
    try:
        report = data["report"]
        return JobMetadata(
            MappingProxyType({FieldName(name): _field(value) for name, value in data["fields"].items()}),
            MappingProxyType({FieldName(name): _missing(value) for name, value in data["missing"].items()}),
            ReadingReport(
                float(report["wall_s"]),
                int(report["files_read"]),
                int(report["bytes_read"]),
                int(report["steps"]),
                report["entry"],
                MappingProxyType(dict(report["skipped"])),
                tuple(report["notes"]),
                report["stopped_early"],
            ),
            tuple(
                Disagreement(
                    FieldName(each["field"]),
                    each["kept"],
                    each["kept_source"],
                    each["rejected"],
                    each["rejected_source"],
                )
                for each in data.get("disagreements", [])
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is no metadata of a job: {type(error).__name__}: {error}") from error


def _field_json(value: FieldValue) -> dict[str, Any]:
    return {
        "value": value.value,
        "source": value.kind.value,
        "confidence_frac": value.confidence_frac,
        "formula": value.formula,
        "evidence": [_evidence_json(item) for item in value.evidence],
    }


def _missing_json(value: Missing) -> dict[str, Any]:
    return {"reason": value.reason, "evidence": [_evidence_json(item) for item in value.evidence]}


def _evidence_json(item: Evidence) -> dict[str, Any]:
    return {"source": item.kind.value, "file": item.file, "line": item.line, "name": item.name, "text": item.text}


def _field(data: Mapping[str, Any]) -> FieldValue:
    return FieldValue(
        data["value"],
        SourceKind(data["source"]),
        float(data["confidence_frac"]),
        tuple(_evidence(item) for item in data["evidence"]),
        data.get("formula"),
    )


def _missing(data: Mapping[str, Any]) -> Missing:
    return Missing(str(data["reason"]), tuple(_evidence(item) for item in data["evidence"]))


def _evidence(data: Mapping[str, Any]) -> Evidence:
    return Evidence(SourceKind(data["source"]), str(data["file"]), data["line"], data["name"], data["text"])
