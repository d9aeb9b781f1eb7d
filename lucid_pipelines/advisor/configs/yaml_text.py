"""YAML to values, from the event stream: aliases are shared and never expanded (billion laughs)."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from lucid_pipelines.advisor.evaluator.values import Lit, Map, Origin, Seq, Sym, Value
from lucid_pipelines.advisor.metadata import SourceKind

MAX_EVENTS = 200_000
MAX_DEPTH = 60
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FLOAT_WORD = re.compile(r"[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$")


class ConfigTextError(Exception):
    """A configuration file cannot be used: malformed, too deep or too large."""


class Tagged(Sym):
    """A YAML node with a tag of its own, such as ``!new:torch.optim.Adam`` or ``!ref <lr>``.

    ``path`` is the tag without the exclamation mark; ``args`` holds the node's value.
    """

    __slots__ = ("line",)

    def __init__(self, tag: str, value: Value, line: int) -> None:
        super().__init__(tag, (value,))
        self.line = line


def parse_yaml(
    text: str, file: str, kind: SourceKind = SourceKind.CONFIG, *, lenient_floats: bool = False
) -> list[Value]:
    """The documents of a YAML text.

    Args:
        lenient_floats: read ``1e-3`` as a number, as OmegaConf and YAML 1.2 do; PyYAML takes it for text.

    Raises:
        ConfigTextError: malformed, deeper than 60 levels or more than 200,000 events.
    """
    builder = _Builder(file, kind, lenient_floats)
    loader = None
    try:
        loader = _LOADER(text)
        count = 0
        while loader.check_event():
            builder.take(loader.get_event())
            count += 1
            if count > MAX_EVENTS:
                raise ConfigTextError(f"more than {MAX_EVENTS} YAML events: {file}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigTextError(f"not YAML: {file}: {str(error)[:200]}") from error
    finally:
        if loader is not None:
            loader.dispose()
    return builder.documents


class _Builder:
    """Builds values from YAML events without recursion."""

    def __init__(self, file: str, kind: SourceKind, lenient_floats: bool) -> None:
        self.documents: list[Value] = []
        self._file = file
        self._kind = kind
        self._lenient = lenient_floats
        self._stack: list[tuple[Map | Seq, str | None, int, str | None]] = []
        self._keys: list[Value | None] = []
        self._anchors: dict[str, Value] = {}
        self._resolver = Resolver()

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event), event.anchor, None)
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._anchors.get(event.anchor, Sym("alias")), None, None)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(self._stack) >= MAX_DEPTH:
                raise ConfigTextError(f"deeper than {MAX_DEPTH} levels: {self._file}")
            made: Map | Seq = Map() if isinstance(event, yaml.MappingStartEvent) else Seq([])
            tag = None if event.implicit or not event.tag else event.tag
            if event.anchor:
                self._anchors[event.anchor] = made
            self._stack.append((made, tag, event.start_mark.line + 1, event.anchor))
            self._keys.append(None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            made, tag, line, anchor = self._stack.pop()
            self._keys.pop()
            if isinstance(made, Map):
                _merge_keys(made)
            value: Value = made
            if tag is not None and not tag.startswith("tag:yaml.org,2002:"):
                value = Tagged(tag.lstrip("!"), made, line)
                if anchor:
                    self._anchors[anchor] = value
            self._add(value, None, None)

    def _add(self, value: Value, anchor: str | None, _tag: str | None) -> None:
        if anchor:
            self._anchors[anchor] = value
        if not self._stack:
            self.documents.append(value)
            return
        parent = self._stack[-1][0]
        if isinstance(parent, Seq):
            parent.items.append(value)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = value
            return
        self._keys[-1] = None
        if isinstance(key, Lit):
            if isinstance(value, Lit) and value.origin is not None:
                value = Lit(value.value, value.origin.named(str(key.value)))
            if key.value == "<<":
                parent.items.setdefault("<<", Seq([]))
                merged = parent.items["<<"]
                assert isinstance(merged, Seq)
                merged.items.extend(value.items if isinstance(value, Seq) else [value])
            else:
                parent.items[key.value] = value
        else:
            parent.open = True

    def _scalar(self, event: yaml.ScalarEvent) -> Value:
        line = event.start_mark.line + 1
        origin = Origin(self._kind, self._file, line)
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(ScalarNode, event.value, event.implicit)
        elif not tag.startswith("tag:yaml.org,2002:"):
            return Tagged(tag.lstrip("!"), Lit(event.value, origin), line)
        return Lit(self._plain(tag.rpartition(":")[2], event), origin)

    def _plain(self, kind: str, event: yaml.ScalarEvent) -> str | int | float | bool | None:
        text = event.value
        try:
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() in ("true", "yes", "on")
            if kind == "int":
                return _integer(text)
            if kind == "float":
                return _floating(text)
        except ValueError:
            return text
        if self._lenient and event.implicit[0] and _FLOAT_WORD.match(text):
            return float(text.replace("_", ""))
        return text


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    if len(digits) > 60 or ":" in digits:
        raise ValueError(text)
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits.removeprefix("0o"), 8)
    return sign * int(digits)


def _floating(text: str) -> float:
    digits = text.replace("_", "").lower()
    if ":" in digits or len(digits) > 60:
        raise ValueError(text)
    sign = -1.0 if digits.startswith("-") else 1.0
    bare = digits.lstrip("+-")
    if bare in (".inf", ".nan"):
        return sign * float(bare[1:])
    return sign * float(bare)


def _merge_keys(made: Map) -> None:
    """``<<: *base``: keys of the base that the mapping does not set itself."""
    merged = made.items.pop("<<", None)
    if not isinstance(merged, Seq):
        return
    for base in merged.items:
        if isinstance(base, Map):
            for key, value in base.items.items():
                made.items.setdefault(key, value)
