"""HyperPyYAML: ``!ref``, ``!new:``, ``!name:``, ``!apply:``, ``!PLACEHOLDER`` and arithmetic in references."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.operators import SYMBOLS, binary
from lucid_pipelines.advisor.evaluator.values import (
    Lit,
    Map,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

_REFERENCE = re.compile(r"<([^<>]+)>")
MAX_DEPTH = 40
MAX_PIECES = 20_000


def resolve_tags(content: Value, machine: Machine, site: Site) -> Value:
    """A copy of a parsed file with references followed and constructors called."""
    if not isinstance(content, Map):
        return content
    return _Resolver(content, machine, site).map(content, 0)


class _Resolver:
    def __init__(self, root: Map, machine: Machine, site: Site) -> None:
        self._root = root
        self._machine = machine
        self._site = site
        self._done: dict[str, Value] = {}
        self._pieces = 0
        self._active: set[str] = set()

    def map(self, source: Map, depth: int) -> Map:
        made = Map(open=source.open)
        for key, value in source.items.items():
            if source is self._root and isinstance(key, str):
                made.items[key] = self._top(key, depth)
            else:
                made.items[key] = _named(self._value(value, depth + 1), key)
        return made

    def _top(self, key: str, depth: int) -> Value:
        if key in self._done:
            return self._done[key]
        if key in self._active or depth > MAX_DEPTH:
            return unknown("circular reference")
        self._active.add(key)
        value = _named(self._value(self._root.items[key], depth + 1), key)
        self._active.discard(key)
        self._done[key] = value
        return value

    def _value(self, value: Value, depth: int) -> Value:
        self._pieces += 1
        if depth > MAX_DEPTH or self._pieces > MAX_PIECES:
            return unknown("deep")
        if isinstance(value, Map):
            return self.map(value, depth)
        if isinstance(value, Seq):
            return Seq([self._value(item, depth + 1) for item in value.items], value.kind)
        if isinstance(value, Sym) and value.args and not value.path.endswith("()"):
            return self._tagged(value.path, value.args[0], depth)
        return value

    def _tagged(self, tag: str, inner: Value, depth: int) -> Value:
        if tag in ("ref", "copy") and isinstance(inner, Lit):
            return self._reference(str(inner.value), inner, depth)
        if tag == "PLACEHOLDER":
            return unknown("placeholder")
        kind, _, target = tag.partition(":")
        argument = self._value(inner, depth + 1)
        if kind in ("new", "apply", "name") and target:
            args = list(argument.items) if isinstance(argument, Seq) else []
            kwargs = {str(key): item for key, item in argument.items.items()} if isinstance(argument, Map) else {}
            found = self._find(target)
            if kind == "name":
                self._machine.note_call(target, args, kwargs, self._site)
                return Sym(f"{target}", args, kwargs)
            return self._machine.call(found, args, kwargs, self._site)
        if kind == "tuple":
            return argument
        return argument if kind in ("include", "module") else unknown(tag)

    def _find(self, dotted: str) -> Value:
        module, _, name = dotted.rpartition(".")
        found = self._machine.modules.find(module) if module else None
        if found is not None:
            return self._machine.attribute(found, name, self._site)
        return Sym(dotted)

    def _reference(self, text: str, source: Lit, depth: int) -> Value:
        """``<lr> * 2``: a reference, a string with references, or arithmetic on them."""
        whole = _REFERENCE.fullmatch(text.strip())
        if whole is not None:
            return self._follow(whole.group(1), depth)
        names: dict[str, Value] = {}

        def stand_in(match: re.Match[str]) -> str:
            name = f"_ref{len(names)}"
            names[name] = self._follow(match.group(1), depth)
            return name

        replaced = _REFERENCE.sub(stand_in, text)
        origin = source.origin or Origin(SourceKind.CONFIG, self._site.file)
        site = Site(origin.file, origin.line or 0)
        try:
            tree = ast.parse(replaced.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is not None:
            computed = _arithmetic(tree, names, site)
            if isinstance(computed, Lit) or not _looks_like_text(text):
                return computed
        shown = replaced
        for name, value in names.items():
            if not isinstance(value, Lit):
                return unknown("reference", value)
            shown = shown.replace(name, str(value.value))
        return Lit(shown, Origin(origin.kind, origin.file, origin.line))

    def _follow(self, path: str, depth: int) -> Value:
        parts = re.split(r"[\[\]]+|\.", path.strip().rstrip("]"))
        parts = [part for part in parts if part]
        if not parts or parts[0] not in self._root.items:
            return unknown("reference")
        value = self._top(parts[0], depth + 1)
        for part in parts[1:]:
            if isinstance(value, Map) and part in value.items:
                value = value.items[part]
            else:
                return self._machine.attribute(value, part, self._site)
        return value


def _looks_like_text(text: str) -> bool:
    return "/" in text and not re.search(r"\s/\s|//", text)


def _arithmetic(node: ast.expr, names: dict[str, Value], site: Site) -> Value:
    if isinstance(node, ast.Name):
        return names.get(node.id, unknown("name"))
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Lit(node.value, Origin(SourceKind.CONFIG, site.file, site.line))
    if isinstance(node, ast.BinOp) and type(node.op) in SYMBOLS:
        left = _arithmetic(node.left, names, site)
        right = _arithmetic(node.right, names, site)
        if isinstance(left, Lit) and isinstance(left.value, str):
            return unknown("text")
        return binary(SYMBOLS[type(node.op)], left, right, site, node)
    return unknown("expression")


def _named(value: Value, key: object) -> Value:
    if isinstance(value, Lit) and value.origin is not None and value.origin.name is None:
        return Lit(value.value, value.origin.named(str(key)))
    return value
