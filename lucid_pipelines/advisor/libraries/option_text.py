"""Words of a command line as typed values."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.builtin_code import from_python
from lucid_pipelines.advisor.evaluator.values import (
    Cls,
    Func,
    Lit,
    Map,
    Native,
    Obj,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
    text_of,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

_NEGATIVE = re.compile(r"^-\d+$|^-\d*\.\d+([eE][-+]?\d+)?$|^-\d+[eE][-+]?\d+$")
_TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})
_FALSE = frozenset({"false", "no", "off", "0", "n", "f"})


def is_option(word: str) -> bool:
    """Whether a word looks like an option rather than a value."""
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE.match(word) and " " not in word


def renamed(value: Value, name: str, kind: SourceKind | None = None) -> Value:
    """The same scalar under an option's name, and optionally with another kind of source."""
    if not isinstance(value, Lit) or value.origin is None:
        return value
    origin = value.origin
    if kind is None and origin.name is not None:
        return value
    return Lit(
        value.value,
        Origin(kind or origin.kind, origin.file, origin.line, name, origin.node, origin.inputs),
    )


def as_default(value: Value, name: str) -> Value:
    """A literal that a program declares as an option's default."""
    if isinstance(value, Lit) and value.origin is not None and value.origin.kind is SourceKind.CODE:
        return renamed(value, name, SourceKind.DEFAULT)
    return value


def from_word(word: Lit, name: str) -> Lit:
    """A word given on the command line for the option ``name``."""
    origin = word.origin
    if origin is None:
        return word
    return Lit(word.value, Origin(origin.kind, origin.file, origin.line, name))


def convert(machine: Machine, converter: Value | None, word: Lit, site: Site) -> Value:
    """``converter(word)``; the result keeps the word's origin."""
    if converter is None or (isinstance(converter, Lit) and converter.value is None):
        return word
    if isinstance(converter, Sym):
        name = converter.path.removesuffix("()").rpartition(".")[2].lower()
        if "int" in name:
            return _numeric(word, int)
        if "float" in name:
            return _numeric(word, float)
        if "bool" in name:
            return boolean_word(word)
        if name in ("loads", "literal_eval", "safe_load"):
            return guessed(word)
        return word
    if isinstance(converter, Cls) and converter.decorated == "enum":
        made = machine.call(converter, [word], {}, site)
        return word if isinstance(made, Sym) else made
    if isinstance(converter, Native | Func | Cls):
        result = machine.call(converter, [word], {}, site)
        if isinstance(result, Lit):
            return Lit(result.value, word.origin)
        return result
    return word


def _numeric(word: Lit, kind: type[int] | type[float]) -> Value:
    try:
        return Lit(kind(str(word.value)), word.origin)
    except ValueError:
        return unknown("not a number", word)


def boolean_word(word: Lit) -> Value:
    """``true``, ``no``, ``1``, … as a boolean."""
    text = str(word.value).lower()
    if text in _TRUE:
        return Lit(True, word.origin)
    if text in _FALSE:
        return Lit(False, word.origin)
    return unknown("not a boolean", word)


def guessed(word: Lit) -> Value:
    """A word as the Python literal it spells, as fire, OmegaConf and their kin read it; else as text."""
    text = text_of(word)
    if text is None or len(text) > 5_000:
        return word
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return Lit(lowered == "true", word.origin)
    if lowered in ("null", "none"):
        return Lit(None, word.origin)
    try:
        return from_python(ast.literal_eval(text.strip()), word.origin)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    try:
        return Lit(float(text), word.origin) if re.match(r"^[-+]?[\d.]+([eE][-+]?\d+)?$", text) else word
    except ValueError:
        return word


def by_annotation(machine: Machine, annotation: ast.expr | None, current: Value | None, word: Lit, site: Site) -> Value:
    """A word converted to what a dataclass field or parameter declares."""
    names = _annotation_names(annotation)
    if "bool" in names or (isinstance(current, Lit) and isinstance(current.value, bool)):
        return boolean_word(word)
    if names & {"List", "list", "Sequence", "Tuple", "tuple"}:
        return guessed(word)
    if "int" in names and "float" not in names:
        converted = _numeric(word, int)
        if isinstance(converted, Lit) or "str" not in names:
            return converted if isinstance(converted, Lit) else _scientific(word)
        return word
    if "float" in names:
        return _numeric(word, float)
    if "str" in names or "Literal" in names or "Path" in names:
        return word
    if isinstance(current, Lit) and not names:
        if isinstance(current.value, int):
            return _numeric(word, int)
        if isinstance(current.value, float):
            return _numeric(word, float)
        if isinstance(current.value, str):
            return word
    if isinstance(current, Obj) and current.cls.decorated == "enum":
        return convert(machine, current.cls, word, site)
    return guessed(word)


def _scientific(word: Lit) -> Value:
    """``1e6`` for a whole number."""
    try:
        number = float(str(word.value))
    except ValueError:
        return unknown("not a number", word)
    return Lit(int(number), word.origin) if number == int(number) and abs(number) < 1e18 else unknown("not whole", word)


def _annotation_names(annotation: ast.expr | None) -> set[str]:
    if annotation is None:
        return set()
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return set(re.findall(r"[A-Za-z_]\w*", annotation.value))
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(annotation)
        if isinstance(part, ast.Name | ast.Attribute)
    }


def split_assignments(words: list[Value]) -> list[tuple[str, Lit]]:
    """``key=value`` words, with leading dashes and Hydra's ``+`` removed; other words are left out."""
    found: list[tuple[str, Lit]] = []
    for word in words:
        text = text_of(word)
        if text is None or "=" not in text or not isinstance(word, Lit):
            continue
        key, _, value = text.partition("=")
        key = key.lstrip("-+~").strip()
        if key and " " not in key:
            found.append((key, from_word(Lit(value, word.origin), key.rpartition(".")[2])))
    return found


def set_path(machine: Machine, target: Value, path: str, value: Value) -> bool:
    """Set ``a.b.c`` inside nested maps, objects and lists; whether the place was found or made."""
    names = path.split(".")
    current = target
    for name in names[:-1]:
        following = child(machine, current, name)
        if following is None or (isinstance(following, Lit) and following.value is None):
            if not isinstance(current, Map):
                return False
            following = Map(attributes=current.attributes)
            machine.put(current.items, name, following)
        current = following
    last = names[-1]
    if isinstance(current, Map):
        key = existing_key(current, last)
        machine.put(current.items, key, value)
        return True
    if isinstance(current, Obj):
        machine.put(current.attrs if not isinstance(current.payload, Map) else current.payload.items, last, value)
        return True
    if isinstance(current, Seq) and last.isdigit() and int(last) < len(current.items):
        machine.touch(current)
        current.items[int(last)] = value
        return True
    return False


def existing_key(container: Map, name: str) -> object:
    """The key that a name means: itself, or the same number."""
    if name in container.items or not name.lstrip("-").isdigit():
        return name
    return int(name) if int(name) in container.items else name


def child(machine: Machine, container: Value, name: str) -> Value | None:
    """One step of a dotted path, or ``None``."""
    if isinstance(container, Obj):
        if name in container.attrs:
            return machine.settle(container.attrs, name)
        container = container.payload if container.payload is not None else container
    if isinstance(container, Map):
        key = existing_key(container, name)
        return machine.settle(container.items, key) if key in container.items else None
    if isinstance(container, Seq) and name.isdigit() and int(name) < len(container.items):
        return container.items[int(name)]
    return None
