"""What the model may say in one turn: a JSON object of one schema, every part of it bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lucid_pipelines.advisor.metadata import FieldName, Scalar
from lucid_pipelines.domain.errors import InputError

MAX_PATH = 240
MAX_TEXT = 120
MAX_THOUGHT = 240
MAX_FACTS = 16
MAX_LINE = 200_000
MAX_NUMBER = 1e15


class ActionKind(StrEnum):
    """The moves of the loop."""

    FILE_TREE = "file_tree"
    FILE_READ = "file_read"
    FINISH = "finish"


NUMBERS = frozenset(
    {
        FieldName.ITERATIONS,
        FieldName.BATCH_SIZE,
        FieldName.BATCH_SIZE_PER_DEVICE,
        FieldName.GRAD_ACCUMULATION,
        FieldName.LEARNING_RATE,
        FieldName.SEQ_LEN,
        FieldName.D_MODEL,
        FieldName.LAYERS,
        FieldName.WORKERS,
        FieldName.GPUS_PER_NODE,
        FieldName.NODES,
    }
)
TEXTS = frozenset(
    {
        FieldName.MODEL,
        FieldName.DATASET,
        FieldName.TASK_TYPE,
        FieldName.OPTIMIZER,
        FieldName.PRECISION,
    }
)
WHOLE = NUMBERS - {FieldName.LEARNING_RATE}
ASKED = tuple(sorted(NUMBERS | TEXTS))
PRECISIONS = frozenset({"fp32", "tf32", "fp16", "bf16", "fp8"})


@dataclass(frozen=True, slots=True)
class Claim:
    """A value that the model says stands in a line of a file."""

    field_name: FieldName
    value: Scalar
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Action:
    """One turn of the model."""

    kind: ActionKind
    path: str = ""
    line: int = 1
    claims: tuple[Claim, ...] = ()


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["thought", "action", "path", "line", "facts"],
    "properties": {
        "thought": {"type": "string", "maxLength": MAX_THOUGHT},
        "action": {"type": "string", "enum": [kind.value for kind in ActionKind]},
        "path": {"type": "string", "maxLength": MAX_PATH},
        "line": {"type": "integer", "minimum": 1, "maximum": MAX_LINE},
        "facts": {
            "type": "array",
            "maxItems": MAX_FACTS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["field", "value", "file", "line"],
                "properties": {
                    "field": {"type": "string", "enum": [name.value for name in ASKED]},
                    "value": {
                        "anyOf": [
                            {"type": "string", "maxLength": MAX_TEXT},
                            {"type": "number", "minimum": 0, "maximum": MAX_NUMBER},
                        ]
                    },
                    "file": {"type": "string", "maxLength": MAX_PATH},
                    "line": {"type": "integer", "minimum": 1, "maximum": MAX_LINE},
                },
            },
        },
    },
}
"""Flat, so that a server's guided decoding handles it; bounded, so that no output runs to the token limit."""


def parse_action(answer: Mapping[str, object]) -> Action:
    """Check an answer again, whoever validated it before, and turn it into an action.

    Raises:
        InputError: it is no action: a missing key, a value of another kind or out of range.
    """
    try:
        kind = ActionKind(str(answer["action"]))
        path, line = answer["path"], answer["line"]
        facts: Any = answer["facts"]
    except (KeyError, ValueError) as error:
        raise InputError(f"an action has action, path, line and facts: {error}") from error
    if not isinstance(path, str) or len(path) > MAX_PATH:
        raise InputError(f"a path is a text of at most {MAX_PATH} characters")
    if not _is_line(line):
        raise InputError(f"a line is a whole number from 1 to {MAX_LINE}")
    if not isinstance(facts, Sequence) or isinstance(facts, str) or len(facts) > MAX_FACTS:
        raise InputError(f"facts are a list of at most {MAX_FACTS}")
    assert isinstance(line, int)
    claims = tuple(_claim(fact) for fact in facts) if kind is ActionKind.FINISH else ()
    return Action(kind, path, line, claims)


def _claim(fact: Any) -> Claim:
    if not isinstance(fact, Mapping) or not {"field", "value", "file", "line"} <= set(fact):
        raise InputError("a fact has field, value, file and line")
    if fact["field"] not in ASKED:
        raise InputError(f"no such field: {str(fact['field'])[:60]!r}")
    if not isinstance(fact["file"], str) or len(fact["file"]) > MAX_PATH or not _is_line(fact["line"]):
        raise InputError("a fact's file is a short text and its line a whole number")
    name = FieldName(fact["field"])
    return Claim(name, checked_value(name, fact["value"]), fact["file"], fact["line"])


def checked_value(name: FieldName, value: object) -> Scalar:
    """A claimed value in the field's own kind and range.

    Raises:
        InputError: it is of another kind or out of range.
    """
    if name in NUMBERS:
        return _number(name, value)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT or not value.isprintable():
        raise InputError(f"{name} is a short printable text")
    text = value.strip()
    if name is FieldName.PRECISION and text not in PRECISIONS:
        raise InputError(f"precision is one of {', '.join(sorted(PRECISIONS))}")
    return text


def _number(name: FieldName, value: object) -> Scalar:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise InputError(f"{name} is a number: {value[:40]!r}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_NUMBER:
        raise InputError(f"{name} is a number above 0 and at most {MAX_NUMBER:g}")
    if name in WHOLE:
        if value != int(value):
            raise InputError(f"{name} is a whole number: {value}")
        return int(value)
    return float(value)


def _is_line(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_LINE
