"""Check an answer against a JSON schema: the keywords that our schemas use, and no others.

A keyword that is not known here is an error of the schema: nothing goes unchecked in silence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lucid_pipelines.domain.errors import InputError

_NOTES = frozenset({"title", "description", "default", "examples", "$schema"})
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
}
MAX_DEPTH = 40


def violation(value: object, schema: Mapping[str, Any], path: str = "answer", depth: int = 0) -> str | None:
    """The first thing in which ``value`` does not fit the schema, or ``None``.

    Raises:
        InputError: the schema uses a keyword or a type that is not known here.
    """
    if depth > MAX_DEPTH:
        return f"{path} is nested too deeply"
    for keyword, wanted in schema.items():
        if keyword in _NOTES:
            continue
        check = _CHECKS.get(keyword)
        if check is None:
            raise InputError(f"a JSON schema keyword that is not known here: {keyword!r}")
        found = check(value, wanted, schema, path, depth)
        if found is not None:
            return found
    return None


def _type(value: Any, wanted: Any, _schema: Mapping[str, Any], path: str, _depth: int) -> str | None:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        raise InputError(f"no such JSON type: {unknown[0]!r}")
    return None if any(_TYPES[name](value) for name in names) else f"{path} must be of type {' or '.join(names)}"


def _enum(value: Any, wanted: Any, _schema: Mapping[str, Any], path: str, _depth: int) -> str | None:
    return None if any(_equal(value, each) for each in wanted) else f"{path} must be one of {list(wanted)}"


def _const(value: Any, wanted: Any, _schema: Mapping[str, Any], path: str, _depth: int) -> str | None:
    return None if _equal(value, wanted) else f"{path} must be {wanted!r}"


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _properties(value: Any, wanted: Any, schema: Mapping[str, Any], path: str, depth: int) -> str | None:
    del schema
    if not isinstance(value, Mapping):
        return None
    for name, inner in wanted.items():
        if name in value:
            found = violation(value[name], inner, f"{path}.{name}", depth + 1)
            if found is not None:
                return found
    return None


def _required(value: Any, wanted: Any, _schema: Mapping[str, Any], path: str, _depth: int) -> str | None:
    lacking = [name for name in wanted if isinstance(value, Mapping) and name not in value]
    return f"{path} lacks {lacking[0]!r}" if lacking else None


def _additional(value: Any, wanted: Any, schema: Mapping[str, Any], path: str, depth: int) -> str | None:
    if not isinstance(value, Mapping) or wanted is True:
        return None
    for name in value:
        if name in schema.get("properties", {}):
            continue
        if wanted is False:
            return f"{path} has the unknown key {str(name)[:60]!r}"
        found = violation(value[name], wanted, f"{path}.{str(name)[:60]}", depth + 1)
        if found is not None:
            return found
    return None


def _items(value: Any, wanted: Any, _schema: Mapping[str, Any], path: str, depth: int) -> str | None:
    for place, inner in enumerate(value if isinstance(value, list) else ()):
        found = violation(inner, wanted, f"{path}[{place}]", depth + 1)
        if found is not None:
            return found
    return None


def _any_of(
    value: Any, wanted: Sequence[Mapping[str, Any]], _s: Mapping[str, Any], path: str, depth: int
) -> str | None:
    found = [violation(value, each, path, depth + 1) for each in wanted]
    return None if None in found else f"{path} fits none of the kinds that are allowed: {found[0]}"


def _bound(words: str, applies: Callable[[Any], bool], holds: Callable[[Any, Any], bool]) -> Callable[..., str | None]:
    def check(value: Any, wanted: Any, _schema: Mapping[str, Any], path: str, _depth: int) -> str | None:
        return f"{path} must be {words} {wanted}" if applies(value) and not holds(value, wanted) else None

    return check


_NUMBER, _STRING, _ARRAY = _TYPES["number"], _TYPES["string"], _TYPES["array"]
_CHECKS: Mapping[str, Callable[..., str | None]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "anyOf": _any_of,
    "minimum": _bound("at least", _NUMBER, lambda value, wanted: value >= wanted),
    "maximum": _bound("at most", _NUMBER, lambda value, wanted: value <= wanted),
    "exclusiveMinimum": _bound("above", _NUMBER, lambda value, wanted: value > wanted),
    "exclusiveMaximum": _bound("below", _NUMBER, lambda value, wanted: value < wanted),
    "minLength": _bound("of a length of at least", _STRING, lambda value, wanted: len(value) >= wanted),
    "maxLength": _bound("of a length of at most", _STRING, lambda value, wanted: len(value) <= wanted),
    "pattern": _bound("a text that matches", _STRING, lambda value, wanted: re.search(wanted, value) is not None),
    "minItems": _bound("a list with at least", _ARRAY, lambda value, wanted: len(value) >= wanted),
    "maxItems": _bound("a list with at most", _ARRAY, lambda value, wanted: len(value) <= wanted),
}
