"""Operators on values: exact on known scalars within size bounds, symbolic otherwise."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from lucid_pipelines.advisor.evaluator.values import (
    Cls,
    Func,
    Lit,
    Map,
    Model,
    Native,
    Obj,
    Origin,
    Plain,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

MAX_TEXT = 8_000
MAX_ITEMS = 5_000
MAX_BITS = 512

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.MatMult: "@",
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "|": operator.or_,
    "&": operator.and_,
    "^": operator.xor,
}
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def derived(value: Plain, inputs: tuple[Lit, ...], site: Site, node: ast.AST | None = None) -> Lit:
    """A scalar computed from others. Arithmetic on bare literals stays a literal of the code."""
    kinds = {item.origin.kind for item in inputs if item.origin is not None}
    bare = all(item.origin is None or (item.origin.name is None and not item.origin.inputs) for item in inputs)
    if bare and len(kinds) <= 1:
        kind = next(iter(kinds), SourceKind.CODE)
        return Lit(value, Origin(kind, site.file, site.line, node=node))
    return Lit(value, Origin(SourceKind.COMPUTED, site.file, site.line, node=node, inputs=inputs))


def binary(symbol: str, left: Value, right: Value, site: Site, node: ast.AST | None = None) -> Value:
    """``left symbol right``. Unknown when it is too large to be harmless or has no meaning."""
    if isinstance(left, Lit) and isinstance(right, Lit):
        try:
            if not _harmless(symbol, left.value, right.value):
                return unknown("too large")
            return derived(_BINARY[symbol](left.value, right.value), (left, right), site, node)
        except (TypeError, ValueError, ArithmeticError, KeyError, MemoryError):
            return unknown("no such operation")
    if symbol == "%" and isinstance(left, Lit) and isinstance(left.value, str):
        return _percent_format(left, right, site, node)
    if symbol == "+" and isinstance(left, Seq) and isinstance(right, Seq):
        if len(left.items) + len(right.items) > MAX_ITEMS:
            return unknown("too large")
        return Seq([*left.items, *right.items], left.kind, open=left.open or right.open)
    if symbol == "*" and isinstance(left, Seq | Lit) and isinstance(right, Seq | Lit):
        return _repeat(left, right)
    if symbol == "|" and isinstance(left, Map) and isinstance(right, Map):
        return Map({**left.items, **right.items}, attributes=left.attributes, open=left.open or right.open)
    if symbol in "|&-" and isinstance(left, Seq) and isinstance(right, Seq):
        return _set_operation(symbol, left, right)
    return unknown(symbol, left, right, site=site)


def unary(node: ast.unaryop, operand: Value, site: Site) -> Value:
    """``-x``, ``+x`` or ``~x``."""
    if isinstance(operand, Lit) and isinstance(operand.value, int | float):
        value = _UNARY[type(node)](operand.value)
        origin = operand.origin
        if isinstance(node, ast.USub) and origin is not None and origin.name is None:
            return Lit(value, Origin(origin.kind, origin.file, origin.line, inputs=origin.inputs))
        return derived(value, (operand,), site, node)
    return unknown("unary", operand)


def equal(left: Value, right: Value, depth: int = 0) -> bool | None:
    """Whether two values are equal; ``None`` when that is unknown."""
    if isinstance(left, Lit) and isinstance(right, Lit):
        return left.value == right.value
    if isinstance(left, Obj | Cls | Func | Native) and left is right:
        return True
    member, other = (left, right) if isinstance(left, Obj) else (right, left)
    if isinstance(member, Obj) and member.cls.decorated == "enum":
        if isinstance(other, Obj):
            return member.attrs.get("name") is other.attrs.get("name")
        return equal(member.attrs["value"], other) if "value" in member.attrs else None
    if isinstance(left, Seq) and isinstance(right, Seq):
        return _equal_items(left, right, depth)
    if isinstance(left, Lit) and isinstance(right, Seq | Map | Cls | Func):
        return False
    if isinstance(right, Lit) and isinstance(left, Seq | Map | Cls | Func):
        return False
    if isinstance(left, Sym) and isinstance(right, Sym) and left.path == right.path and "()" not in left.path:
        return True if "." in left.path else None
    return None


def contains(container: Value, item: Value) -> bool | None:
    """``item in container``; ``None`` when that is unknown."""
    if isinstance(container, Obj) and container.payload is not None:
        container = container.payload
    if isinstance(container, Lit) and isinstance(item, Lit):
        if isinstance(container.value, str) and isinstance(item.value, str):
            return item.value in container.value
        return None
    if isinstance(container, Map) and isinstance(item, Lit):
        if item.value in container.items:
            return True
        return None if container.open else False
    if isinstance(container, Seq):
        answers = [equal(each, item) for each in container.items]
        if True in answers:
            return True
        return None if None in answers or container.open else False
    if isinstance(container, Model):
        return container.holds(item)
    if isinstance(container, Cls) and container.decorated == "enum":
        answers = [equal(each, item) for each in container.attrs.values() if isinstance(each, Obj)]
        return True if True in answers else None
    return None


def truth(value: Value) -> bool | None:
    """Truth of a value; ``None`` when it is unknown."""
    if isinstance(value, Lit):
        return bool(value.value)
    if isinstance(value, Seq | Map):
        if value.items:
            return True
        return None if value.open else False
    if isinstance(value, Obj):
        if value.payload is not None:
            return truth(value.payload)
        return None if value.cls.find("__bool__") or value.cls.find("__len__") else True
    if isinstance(value, Cls | Func | Native):
        return True
    return None


def compare(node: ast.cmpop, left: Value, right: Value) -> bool | None:
    """The answer of one comparison; ``None`` when it is unknown."""
    if isinstance(node, ast.Eq):
        return equal(left, right)
    if isinstance(node, ast.NotEq):
        return _negated(equal(left, right))
    if isinstance(node, ast.In):
        return contains(right, left)
    if isinstance(node, ast.NotIn):
        return _negated(contains(right, left))
    if isinstance(node, ast.Is | ast.IsNot):
        answer = _same(left, right)
        return answer if isinstance(node, ast.Is) else _negated(answer)
    if isinstance(left, Lit) and isinstance(right, Lit):
        return _ordered(node, left.value, right.value)
    if isinstance(left, Seq) and isinstance(right, Seq):
        mine = [item.value for item in left.items if isinstance(item, Lit)]
        other = [item.value for item in right.items if isinstance(item, Lit)]
        known = len(mine) == len(left.items) and len(other) == len(right.items)
        return _ordered(node, mine, other) if known else None
    return None


def _ordered(node: ast.cmpop, left: Any, right: Any) -> bool | None:
    try:
        if isinstance(node, ast.Lt):
            return bool(left < right)
        if isinstance(node, ast.LtE):
            return bool(left <= right)
        if isinstance(node, ast.Gt):
            return bool(left > right)
        return bool(left >= right)
    except TypeError:
        return None


def _negated(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _same(left: Value, right: Value) -> bool | None:
    """``left is right``. A constructed object is never ``None``; other symbols may be anything."""
    if isinstance(left, Lit) and isinstance(right, Lit):
        if left.value is None or right.value is None or isinstance(left.value, bool):
            return left.value is right.value
        return left.value == right.value
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Lit) and one.value is None and not isinstance(other, Lit):
            return None if isinstance(other, Sym) and not _is_constructed(other) else False
    if left is right:
        return True
    return equal(left, right) if not isinstance(left, Lit) and not isinstance(right, Lit) else False


def _is_constructed(value: Sym) -> bool:
    """Whether a symbol names a module, class or instance, which is never ``None``."""
    last = value.path.removesuffix("()").rpartition(".")[2]
    return last[:1].isupper() and not last.isupper()


def _harmless(symbol: str, left: Any, right: Any) -> bool:
    if symbol in ("**", "<<"):
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            return False
        return abs(right) <= MAX_BITS and (
            isinstance(left, float) or left.bit_length() * max(1, abs(right)) <= 4 * MAX_BITS
        )
    if symbol == "*":
        for text, times in ((left, right), (right, left)):
            if isinstance(text, str | bytes):
                return isinstance(times, int) and len(text) * max(times, 0) <= MAX_TEXT
        return (
            not (isinstance(left, int) and isinstance(right, int)) or left.bit_length() + right.bit_length() <= MAX_BITS
        )
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        return len(left) + len(right) <= MAX_TEXT
    if symbol == "%" and isinstance(left, str):
        return safe_format(left)
    return True


def safe_format(template: str) -> bool:
    """Whether a format string asks for no absurd width."""
    digits = 0
    for character in template:
        digits = digits + 1 if character.isdigit() else 0
        if digits > 3 and ("%" in template or "{" in template):
            return False
    return "*" not in template or "%" not in template


def _percent_format(template: Lit, right: Value, site: Site, node: ast.AST | None) -> Value:
    items = right.items if isinstance(right, Seq) else None
    if items is None or not isinstance(template.value, str) or not safe_format(template.value):
        return unknown("format", right)
    known = [item for item in items if isinstance(item, Lit)]
    if len(known) != len(items):
        return unknown("format", right)
    try:
        return derived(template.value % tuple(item.value for item in known), (template, *known), site, node)
    except (TypeError, ValueError):
        return unknown("format")


def _repeat(left: Seq | Lit, right: Seq | Lit) -> Value:
    items, times = (left, right) if isinstance(left, Seq) else (right, left)
    if not isinstance(items, Seq) or not isinstance(times, Lit) or not isinstance(times.value, int):
        return unknown("*", left, right)
    if len(items.items) * max(times.value, 0) > MAX_ITEMS:
        return unknown("too large")
    return Seq(items.items * times.value, items.kind, open=items.open)


def _set_operation(symbol: str, left: Seq, right: Seq) -> Value:
    if len(left.items) * max(1, len(right.items)) > 40_000:
        return unknown("too large")
    inside = [contains(right, item) for item in left.items]
    if None in inside or left.open or right.open:
        return unknown(symbol)
    if symbol == "-":
        return Seq([item for item, found in zip(left.items, inside, strict=True) if not found], "set")
    if symbol == "&":
        return Seq([item for item, found in zip(left.items, inside, strict=True) if found], "set")
    extra = [item for item in right.items if contains(left, item) is False]
    return Seq([*left.items, *extra], "set")


def _equal_items(left: Seq, right: Seq, depth: int) -> bool | None:
    if left is right:
        return None if left.open else True
    if depth > 4:
        return None
    if left.open or right.open:
        return None
    if len(left.items) != len(right.items):
        return False
    answers = [equal(one, other, depth + 1) for one, other in zip(left.items, right.items, strict=True)]
    if False in answers:
        return False
    return None if None in answers else True
