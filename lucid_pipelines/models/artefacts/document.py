"""A model as a JSON document: what it was learned from, its score tables, and golden rows to check it by.

No pickle: a table of numbers reads the same under every version of every library. A digest shows a changed or
torn file, and the golden rows show a reader that computes something else than the writer did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.models.kinds import ModelKind

FORMAT = "lucid-model/1"
GOLDEN_TOLERANCE = 1e-9
GOLDEN_ROWS = 32
_PACKAGES = ("lucid-pipelines", "numpy", "scikit-learn", "interpret-core")


class ArtefactError(StateError):
    """A model file that must not be used: damaged, of another kind, or one that no longer gives its golden answers."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a model was learned from.

    Attributes:
        as_of: nothing later than this moment was seen; ``None`` for measurements without a date.
        data_sha256: of the training matrix and target, or of the measured tables.
        left_out: rows that were not used, by reason.
        settings: how it was trained.
    """

    rows: int
    data_sha256: str
    as_of: datetime | None = None
    source: str = ""
    left_out: Mapping[str, int] | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """What can be said of a model without using it."""

    kind: ModelKind
    version: str
    created_at: datetime
    trained: Trained
    packages: Mapping[str, str]
    metrics: Mapping[str, Any]
    digest: str


def data_sha256(*arrays: npt.ArrayLike) -> str:
    """Digest of numbers: their shapes and their float64 bytes, every NaN alike."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array, dtype="<f8")
        values = np.where(np.isnan(values), np.nan, values)
        digest.update(repr(values.shape).encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def seal(
    kind: ModelKind,
    model: Mapping[str, Any],
    trained: Trained,
    *,
    golden_inputs: Any,
    golden_outputs: npt.ArrayLike,
    metrics: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
) -> dict[str, Any]:
    """The document of a model: everything that ``unseal`` will check.

    Args:
        model: score tables, as the kind's reader expects them.
        golden_inputs: JSON values that the kind's scorer takes.
        golden_outputs: what the model says of them.

    Returns:
        A document with its digest; its version is the as-of moment (or that of its making) and the digest's
        first digits.
    """
    made = (created_at or datetime.now(UTC)).astimezone(UTC)
    document: dict[str, Any] = {
        "format": FORMAT,
        "kind": kind.value,
        "created_at": made.isoformat(),
        "trained": {
            "rows": trained.rows,
            "as_of": None if trained.as_of is None else trained.as_of.astimezone(UTC).isoformat(),
            "source": trained.source,
            "data_sha256": trained.data_sha256,
            "left_out": dict(trained.left_out or {}),
            "settings": dict(trained.settings or {}),
        },
        "packages": _versions(),
        "metrics": dict(metrics or {}),
        "model": dict(model),
        "goldens": {"inputs": golden_inputs, "outputs": _plain(np.asarray(golden_outputs, dtype=np.float64))},
    }
    return _sealed(document, trained.as_of or made)


def with_evaluation(document: Mapping[str, Any], evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The document with an evaluation among its metrics, sealed anew: another version of the same tables."""
    header = describe(document)
    body = {key: value for key, value in document.items() if key not in ("version", "digest")}
    body["metrics"] = {**header.metrics, "evaluation": evaluation}
    return _sealed(body, header.trained.as_of or header.created_at)


def describe(document: Mapping[str, Any]) -> Header:
    """Check a document's format and digest, and say what it is.

    Raises:
        ArtefactError: another format, a missing part, or another digest than the one it carries.
    """
    try:
        if document["format"] != FORMAT:
            raise ArtefactError(
                f"this program reads models of the format {FORMAT}, not {str(document['format'])[:80]!r}; "
                "upgrade lucid-pipelines, or train the model again with this version"
            )
        body = {key: value for key, value in document.items() if key not in ("version", "digest")}
        if _digest(body) != document["digest"]:
            raise ArtefactError(
                "the model file was changed after it was written; train it again or restore it: "
                f"{document.get('version', 'no version')}"
            )
        trained = document["trained"]
        return Header(
            ModelKind(document["kind"]),
            str(document["version"]),
            datetime.fromisoformat(document["created_at"]),
            Trained(
                int(trained["rows"]),
                str(trained["data_sha256"]),
                None if trained["as_of"] is None else datetime.fromisoformat(trained["as_of"]),
                str(trained["source"]),
                dict(trained["left_out"]),
                dict(trained["settings"]),
            ),
            dict(document["packages"]),
            dict(document["metrics"]),
            str(document["digest"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtefactError(f"this is no model file; a part is missing or wrong: {error!r}") from error


def unseal(document: Mapping[str, Any], kind: ModelKind, score: Callable[[Any], npt.ArrayLike]) -> Header:
    """Check that a document is a whole model of this kind that still gives its golden answers.

    Args:
        score: computes what the model says of the golden inputs.

    Raises:
        ArtefactError: it is not, or it does not; the largest difference is named.
    """
    header = describe(document)
    if header.kind is not kind:
        raise ArtefactError(f"this is a {header.kind} model; a {kind} model is needed: {header.version}")
    try:
        inputs, outputs = document["goldens"]["inputs"], document["goldens"]["outputs"]
        expected = np.array(_numbers(outputs), dtype=np.float64)
        found = np.asarray(score(inputs), dtype=np.float64)
    except ArtefactError:
        raise
    except Exception as error:
        # Whatever a damaged table makes a scorer do, the answer is to refuse.
        raise ArtefactError(f"the golden rows of {header.version} cannot be scored: {error!r}") from error
    if not len(expected) or expected.shape != found.shape:
        raise ArtefactError(f"the golden rows of {header.version} do not fit: {expected.shape} and {found.shape}")
    both = np.isnan(expected) == np.isnan(found)
    apart = float(np.nanmax(np.abs(expected - found), initial=0.0)) if both.all() else float("inf")
    if not apart <= GOLDEN_TOLERANCE * max(1.0, float(np.nanmax(np.abs(expected), initial=0.0))):
        made = ", ".join(f"{name} {number}" for name, number in header.packages.items())
        raise ArtefactError(
            f"{header.version} no longer gives its golden answers (made with {made}); "
            f"train it again: they differ by {apart:.3g}"
        )
    return header


def golden_matrix(matrix: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Rows spread over a feature matrix, as JSON."""
    pick = np.unique(np.linspace(0, len(matrix) - 1, min(GOLDEN_ROWS, len(matrix))).astype(int))
    return _plain(matrix[pick])


def read_matrix(rows: Sequence[Sequence[float | None]]) -> npt.NDArray[np.float64]:
    """The rows that ``golden_matrix`` wrote."""
    return np.array([_numbers(row) for row in rows], dtype=np.float64)


def _numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [_numbers(value) for value in values]
    return np.nan if values is None else float(values)


def _plain(values: npt.NDArray[np.float64]) -> Any:
    """Nested lists with ``None`` for NaN; JSON has no NaN."""
    if values.ndim == 1:
        return [None if np.isnan(value) else float(value) for value in values]
    return [_plain(row) for row in values]


def _sealed(body: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    # Once through JSON, so that what is digested is what will be read.
    document: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False, default=_jsonable))
    digest = _digest(document)
    document["version"] = f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}-{digest[:8]}"
    document["digest"] = digest
    return document


def _digest(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r}")
