"""OmegaConf interpolation: ``${a.b}``, relative ``${.x}``, ``${oc.env:VAR,default}`` and arithmetic resolvers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from lucid_pipelines.advisor.evaluator.operators import SYMBOLS, binary, compare, truth
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Origin, Seq, Site, Value, text_of, unknown
from lucid_pipelines.advisor.metadata import SourceKind

MAX_DEPTH = 30
MAX_PIECES = 20_000
Resolver = Callable[[list[Value]], Value]


def interpolated(value: Value) -> bool:
    """Whether a value is a text with an interpolation."""
    return isinstance(value, Lit) and isinstance(value.value, str) and "${" in value.value


class Interpolator:
    """Resolves the interpolations of one configuration.

    Args:
        root: the whole configuration.
        env: environment variables of the launch line.
        resolvers: custom resolvers by name.
    """

    def __init__(
        self, root: Map, env: Mapping[str, Value] | None = None, resolvers: Mapping[str, Resolver] | None = None
    ) -> None:
        self._root = root
        self._env = env or {}
        self._resolvers = resolvers or {}
        self._pieces = 0

    def resolved(self, source: Map) -> Map:
        """A copy of ``source`` (the root or a part of it) in which every interpolation is resolved."""
        made = self._copy(source, [self._root], 0)
        assert isinstance(made, Map)
        return made

    def _copy(self, value: Value, parents: list[Map], depth: int) -> Value:
        self._pieces += 1
        if depth > MAX_DEPTH or self._pieces > MAX_PIECES:
            return unknown("deep")
        if isinstance(value, Map):
            made = Map(attributes=value.attributes, open=value.open, label=value.label)
            chain = [*parents, value]
            for key, item in value.items.items():
                found = self._copy(item, chain, depth + 1)
                if isinstance(found, Lit) and found.origin is not None and found.origin.name is None:
                    found = Lit(found.value, found.origin.named(str(key)))
                made.items[key] = found
            return made
        if isinstance(value, Seq):
            return Seq([self._copy(item, parents, depth + 1) for item in value.items], value.kind, open=value.open)
        return self._resolve(value, parents, depth) if interpolated(value) else value

    def _resolve(self, value: Value, parents: list[Map], depth: int) -> Value:
        self._pieces += 1
        if depth > MAX_DEPTH or self._pieces > MAX_PIECES or not isinstance(value, Lit):
            return unknown("deep")
        text = str(value.value)
        pieces = _split(text)
        if pieces is None:
            return value
        if len(pieces) == 1 and pieces[0][0]:
            return self._reference(pieces[0][1], value, parents, depth + 1)
        shown: list[str] = []
        inputs: list[Lit] = []
        for is_reference, piece in pieces:
            if not is_reference:
                shown.append(piece)
                continue
            part = self._reference(piece, value, parents, depth + 1)
            if not isinstance(part, Lit):
                return unknown("interpolation", part)
            inputs.append(part)
            shown.append(str(part.value))
        return Lit("".join(shown), value.origin)

    def _reference(self, inner: str, source: Lit, parents: list[Map], depth: int) -> Value:
        name, mark, arguments = _resolver_call(inner)
        if mark:
            return self._call(name, arguments, source, parents, depth)
        found = self._find(inner.strip(), parents, depth)
        return unknown("interpolation") if found is None else found

    def _find(self, path: str, parents: list[Map], depth: int) -> Value | None:
        if interpolated(Lit(path)):
            inner = self._resolve(Lit(path), parents, depth + 1)
            path = text_of(inner) or ""
        current: Value = self._root
        if path.startswith("."):
            ups = len(path) - len(path.lstrip("."))
            base = len(parents) - ups
            if base < 0:
                return None
            current = parents[base]
            path = path.lstrip(".")
        chain: list[Map] = [self._root]
        for part in [part for part in re.split(r"[.\[\]]+", path) if part]:
            if interpolated(current):
                current = self._resolve(current, chain, depth + 1)
            if isinstance(current, Map):
                key: object = part if part in current.items else (int(part) if part.isdigit() else part)
                if key not in current.items:
                    return unknown("interpolation") if current.open else None
                chain.append(current)
                current = current.items[key]
            elif isinstance(current, Seq) and part.isdigit() and int(part) < len(current.items):
                current = current.items[int(part)]
            else:
                return None
        if interpolated(current):
            return self._resolve(current, chain, depth + 1)
        return self._copy(current, chain, depth + 1) if isinstance(current, Map | Seq) else current

    def _call(self, name: str, arguments: str, source: Lit, parents: list[Map], depth: int) -> Value:
        raw = [part.strip() for part in _split_arguments(arguments)]
        if name in ("oc.env", "env"):
            found = self._env.get(raw[0]) if raw else None
            if found is not None:
                return found
            return Lit(raw[1].strip("'\""), source.origin) if len(raw) > 1 else unknown(f"environment {arguments}")
        if name in ("oc.decode", "oc.create", "oc.select") and raw:
            inner = raw[0] if name != "oc.select" else "${" + raw[0] + "}"
            return (
                self._resolve(Lit(inner, source.origin), parents, depth + 1)
                if "${" in inner
                else Lit(inner, source.origin)
            )
        if name in ("eval", "math", "calc", "calculate", "expr"):
            return self._evaluate(arguments, source, parents, depth)
        values = [self._argument(part, source, parents, depth) for part in raw]
        if name in self._resolvers:
            return self._resolvers[name](values)
        simple = _SIMPLE_RESOLVERS.get(name)
        if simple is not None and len(values) == 2:
            return binary(simple, _number(values[0]), _number(values[1]), _site(source))
        return unknown(f"resolver {name}", *values)

    def _argument(self, text: str, source: Lit, parents: list[Map], depth: int) -> Value:
        value: Value = Lit(text.strip("'\""), source.origin)
        return _number(self._resolve(value, parents, depth + 1) if "${" in text else value)

    def _evaluate(self, expression: str, source: Lit, parents: list[Map], depth: int) -> Value:
        """``${eval:"${a} // ${b}"}``: arithmetic on resolved values."""
        names: dict[str, Value] = {}
        pieces = _split(expression.strip().strip("\"'"))
        text = ""
        for is_reference, piece in pieces or [(False, expression)]:
            if not is_reference:
                text += piece
                continue
            stand_in = f"_v{len(names)}"
            names[stand_in] = _number(self._reference(piece, source, parents, depth + 1))
            text += stand_in
        try:
            tree = ast.parse(text.strip().strip("\"'"), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return unknown("eval")
        return evaluate_arithmetic(tree, names, _site(source), expression)


_SIMPLE_RESOLVERS = {"mul": "*", "multiply": "*", "div": "/", "divide": "/", "floordiv": "//", "int_div": "//",
    "add": "+", "sum": "+", "sub": "-", "pow": "**"}  # fmt: skip


def evaluate_arithmetic(node: ast.expr, names: Mapping[str, Value], site: Site, text: str = "") -> Value:
    """The value of an arithmetic expression over named values; anything else is unknown."""
    if isinstance(node, ast.Name):
        return names.get(node.id, unknown("name"))
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return Lit(node.value, Origin(SourceKind.CONFIG, site.file, site.line))
    if isinstance(node, ast.BinOp) and type(node.op) in SYMBOLS:
        left = evaluate_arithmetic(node.left, names, site)
        right = evaluate_arithmetic(node.right, names, site)
        result = binary(SYMBOLS[type(node.op)], left, right, site, node)
        if isinstance(result, Lit) and result.origin is not None and text:
            result.origin.name = None
        return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return binary("*", Lit(-1), evaluate_arithmetic(node.operand, names, site), site, node)
    if isinstance(node, ast.IfExp):
        answer = truth(evaluate_arithmetic(node.test, names, site))
        if answer is None:
            return unknown("condition")
        return evaluate_arithmetic(node.body if answer else node.orelse, names, site)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        answer = compare(
            node.ops[0],
            evaluate_arithmetic(node.left, names, site),
            evaluate_arithmetic(node.comparators[0], names, site),
        )
        return unknown("comparison") if answer is None else Lit(answer)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("int", "float", "round", "max", "min", "abs")
    ):
        parts = [evaluate_arithmetic(arg, names, site) for arg in node.args]
        known = [part for part in parts if isinstance(part, Lit) and isinstance(part.value, int | float)]
        if len(known) == len(parts) and known:
            functions: dict[str, Callable[..., Any]] = {
                "int": int,
                "float": float,
                "round": round,
                "max": max,
                "min": min,
                "abs": abs,
            }
            try:
                value = functions[node.func.id](*(part.value for part in known))
            except (TypeError, ValueError, OverflowError):
                return unknown("call")
            return Lit(value, known[0].origin)
    return unknown("expression")


def _site(source: Lit) -> Site:
    origin = source.origin
    return Site(origin.file, origin.line or 0) if origin is not None else Site("<text>", 0)


def _number(value: Value) -> Value:
    """A text that spells a number as that number."""
    if isinstance(value, Lit) and isinstance(value.value, str):
        try:
            number = float(value.value)
        except ValueError:
            return value
        whole = re.fullmatch(r"[-+]?\d+", value.value.strip())
        return Lit(int(value.value) if whole else number, value.origin)
    return value


def _split(text: str) -> list[tuple[bool, str]] | None:
    """A text as literal pieces and references (without ``${`` and ``}``); ``None`` when unbalanced."""
    pieces: list[tuple[bool, str]] = []
    at = 0
    while at < len(text):
        start = text.find("${", at)
        if start < 0:
            pieces.append((False, text[at:]))
            break
        if start > at:
            pieces.append((False, text[at:start]))
        depth = 0
        position = start
        while position < len(text):
            if text.startswith("${", position):
                depth += 1
                position += 2
                continue
            if text[position] == "}":
                depth -= 1
                if depth == 0:
                    break
            position += 1
        if depth != 0 or position >= len(text):
            return None
        pieces.append((True, text[start + 2 : position]))
        at = position + 1
    return pieces


def _resolver_call(inner: str) -> tuple[str, bool, str]:
    match = re.match(r"\s*([A-Za-z_][\w.\-]*)\s*:(.*)$", inner, re.DOTALL)
    return (match.group(1), True, match.group(2)) if match else (inner, False, "")


def _split_arguments(text: str) -> list[str]:
    """Arguments at commas outside nested references."""
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text:
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    return parts
