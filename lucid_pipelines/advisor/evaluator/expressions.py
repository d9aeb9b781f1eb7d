"""How each kind of expression is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import EllipsisType
from typing import Any

from lucid_pipelines.advisor.evaluator.access import get_item
from lucid_pipelines.advisor.evaluator.branches import either, run_alternatives
from lucid_pipelines.advisor.evaluator.iterate import UNROLL_LIMIT, items_of
from lucid_pipelines.advisor.evaluator.machine import Machine, RaisedError
from lucid_pipelines.advisor.evaluator.operators import (
    MAX_TEXT,
    SYMBOLS,
    binary,
    compare,
    derived,
    safe_format,
    truth,
    unary,
)
from lucid_pipelines.advisor.evaluator.statements import assign_target, make_function
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Frame,
    Lit,
    Map,
    Model,
    Native,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)


def constant(machine: Machine, node: ast.Constant, frame: Frame) -> Value:
    if node.value is None or isinstance(node.value, EllipsisType):
        return NONE
    return Lit(node.value, Origin(frame.module.kind, frame.module.file, node.lineno))


def name(machine: Machine, node: ast.Name, frame: Frame) -> Value:
    found = machine.lookup(node.id, frame)
    if found is not None:
        return found
    if "*" in frame.module.globals:
        return machine.star_name(frame.module, node.id)
    return Sym(node.id)


def attribute(machine: Machine, node: ast.Attribute, frame: Frame) -> Value:
    owner = machine.eval(node.value, frame)
    return machine.attribute(owner, node.attr, Site(frame.module.file, node.lineno))


def subscript(machine: Machine, node: ast.Subscript, frame: Frame) -> Value:
    owner = machine.eval(node.value, frame)
    site = Site(frame.module.file, node.lineno)
    if isinstance(node.slice, ast.Slice):
        return _slice(machine, owner, node.slice, frame)
    return get_item(machine, owner, machine.eval(node.slice, frame), site)


def _slice(machine: Machine, owner: Value, node: ast.Slice, frame: Frame) -> Value:
    bounds: list[int | None] = []
    for part in (node.lower, node.upper, node.step):
        value = NONE if part is None else machine.eval(part, frame)
        if not isinstance(value, Lit) or not isinstance(value.value, int | None):
            return unknown("slice", owner)
        bounds.append(value.value)
    cut = slice(*bounds)
    if bounds[2] == 0:
        return unknown("slice", owner)
    if isinstance(owner, Seq):
        return Seq(owner.items[cut], owner.kind, open=owner.open)
    if isinstance(owner, Lit) and isinstance(owner.value, str | bytes):
        return derived(
            owner.value[cut], (owner,), Site(frame.module.file, node.lineno if hasattr(node, "lineno") else 0)
        )
    return unknown("slice", owner)


def binary_operation(machine: Machine, node: ast.BinOp, frame: Frame) -> Value:
    left = machine.eval(node.left, frame)
    right = machine.eval(node.right, frame)
    site = Site(frame.module.file, node.lineno)
    symbol = SYMBOLS[type(node.op)]
    if isinstance(left, Model):
        answer = left.invoke_operator(machine, symbol, right, site)
        if answer is not None:
            return answer
    result = binary(symbol, left, right, site, node)
    _spend(machine, result)
    return result


def _spend(machine: Machine, value: Value) -> None:
    """Count what a large new text or sequence costs."""
    if isinstance(value, Seq):
        machine.spend(len(value.items))
    elif isinstance(value, Lit) and isinstance(value.value, str | bytes) and len(value.value) > 64:
        machine.spend(len(value.value))


def unary_operation(machine: Machine, node: ast.UnaryOp, frame: Frame) -> Value:
    operand = machine.eval(node.operand, frame)
    site = Site(frame.module.file, node.lineno)
    if isinstance(node.op, ast.Not):
        answer = truth(operand)
        return unknown("not", operand) if answer is None else _answer(not answer, operand, site)
    return unary(node.op, operand, site)


def boolean_operation(machine: Machine, node: ast.BoolOp, frame: Frame) -> Value:
    is_and = isinstance(node.op, ast.And)
    possible: list[Value] = []
    for part in node.values:
        value = machine.eval(part, frame)
        answer = truth(value)
        if answer is None:
            possible.append(value)
        elif answer is not is_and:
            # This operand decides; the ones before it, if unknown, might have decided earlier.
            return value if not possible else either([*possible, value])
        last = value
    if not possible:
        return last  # type: ignore[possibly-undefined]
    if truth(value) is not None:  # type: ignore[possibly-undefined]
        possible.append(value)  # type: ignore[possibly-undefined]
    return either(possible)


def comparison(machine: Machine, node: ast.Compare, frame: Frame) -> Value:
    left = machine.eval(node.left, frame)
    site = Site(frame.module.file, node.lineno)
    parts: list[Value] = [left]
    answers: list[bool | None] = []
    for operation, right_node in zip(node.ops, node.comparators, strict=True):
        right = machine.eval(right_node, frame)
        answers.append(compare(operation, left, right))
        parts.append(right)
        left = right
    if False in answers:
        return _answer(False, parts[0], site)
    if None in answers:
        return unknown("compare", *parts, site=site)
    return _answer(True, parts[0], site)


def _answer(answer: bool, about: Value, site: Site) -> Lit:
    return derived(answer, (about,) if isinstance(about, Lit) else (), site)


def conditional(machine: Machine, node: ast.IfExp, frame: Frame) -> Value:
    answer = truth(machine.eval(node.test, frame))
    if answer is None:
        results: list[Value] = []

        def run(branch: ast.expr) -> Callable[[], None]:
            def alternative() -> None:
                results.append(machine.eval(branch, frame))

            return alternative

        run_alternatives(machine, frame, [run(node.body), run(node.orelse)], RaisedError)
        return either(results)
    return machine.eval(node.body if answer else node.orelse, frame)


def sequence(kind: str) -> Callable[[Machine, Any, Frame], Value]:
    def build(machine: Machine, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
        items: list[Value] = []
        is_open = False
        for part in node.elts:
            if isinstance(part, ast.Starred):
                inner = items_of(machine, machine.eval(part.value, frame))
                if inner is None:
                    is_open = True
                else:
                    items.extend(inner)
            else:
                items.append(machine.eval(part, frame))
        made = Seq(items, kind, open=is_open)
        machine.made(made)
        return made

    return build


def dictionary(machine: Machine, node: ast.Dict, frame: Frame) -> Value:
    result = Map()
    machine.made(result.items)
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = machine.eval(value_node, frame)
        if key_node is None:
            if isinstance(value, Map):
                result.items.update(value.items)
                result.open |= value.open
            else:
                result.open = True
            continue
        key = machine.eval(key_node, frame)
        if isinstance(key, Lit):
            result.items[key.value] = _under_name(value, key.value)
        elif (hashed := hashable(key)) is not None:
            result.items[hashed] = value
        else:
            result.open = True
    return result


def hashable(key: Value) -> Any:
    """A stand-in for a key that is no scalar: tuples of scalars, symbols and objects by identity."""
    if isinstance(key, Seq) and all(isinstance(item, Lit) for item in key.items):
        return tuple(item.value for item in key.items if isinstance(item, Lit))
    if isinstance(key, Sym):
        return None if "()" in key.path or key.args else ("symbol", key.path)
    return None if isinstance(key, Map | Seq) else ("object", id(key))


def _under_name(value: Value, name: Any) -> Value:
    if isinstance(value, Lit) and isinstance(name, str) and value.origin is not None and value.origin.name is None:
        return Lit(value.value, value.origin.named(name))
    return value


def formatted(machine: Machine, node: ast.JoinedStr, frame: Frame) -> Value:
    text: list[str] = []
    inputs: list[Lit] = []
    parts: list[Value] = []
    complete = True
    for part in node.values:
        if isinstance(part, ast.Constant):
            text.append(str(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        value = machine.eval(part.value, frame)
        parts.append(value)
        shown = shown_text(value)
        if part.format_spec is not None and isinstance(value, Lit):
            spec = machine.eval(part.format_spec, frame)
            shown = _formatted_part(value, spec)
        if shown is None:
            complete = False
            continue
        if isinstance(value, Lit):
            inputs.append(value)
        text.append(shown)
    if complete and sum(map(len, text)) <= MAX_TEXT:
        return derived("".join(text), tuple(inputs), Site(frame.module.file, node.lineno), node)
    return unknown("f-string", *(Lit(piece) for piece in text[:12]), *parts)


def shown_text(value: Value) -> str | None:
    """What ``str(value)`` gives, when known."""
    if isinstance(value, Lit):
        return str(value.value)
    if isinstance(value, Model):
        return value.text()
    return None


def _formatted_part(value: Lit, spec: Value) -> str | None:
    if not isinstance(spec, Lit) or not isinstance(spec.value, str) or not safe_format("{" + spec.value):
        return None
    try:
        return format(value.value, spec.value)
    except (ValueError, TypeError):
        return None


def call(machine: Machine, node: ast.Call, frame: Frame) -> Value:
    site = Site(frame.module.file, node.lineno)
    callee = machine.eval(node.func, frame)
    args: list[Value] = []
    for part in node.args:
        if isinstance(part, ast.Starred):
            inner = items_of(machine, machine.eval(part.value, frame))
            if inner is None:
                args.append(Sym("*"))
            else:
                args.extend(inner)
        else:
            args.append(machine.eval(part, frame))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = machine.eval(keyword.value, frame)
        if keyword.arg is not None:
            kwargs[keyword.arg] = _under_name(value, keyword.arg)
            continue
        source = getattr(value, "payload", None) or value
        if isinstance(source, Map):
            kwargs.update({key: item for key, item in source.items.items() if isinstance(key, str)})
            if source.open:
                kwargs.setdefault("**", Sym("**"))
        else:
            kwargs["**"] = value
    if len(args) > 2_000 or len(kwargs) > 2_000:
        return unknown("too many arguments")
    machine.caller = frame
    result = machine.call(callee, args, kwargs, site)
    if isinstance(callee, Native):
        _spend(machine, result)
    return result


def lambda_(machine: Machine, node: ast.Lambda, frame: Frame) -> Value:
    return make_function(machine, "<lambda>", node, frame)


def comprehension(kind: str) -> Callable[[Machine, Any, Frame], Value]:
    def build(machine: Machine, node: Any, frame: Frame) -> Value:
        inner = Frame(frame.module, {}, parent=frame, function=frame.function, depth=frame.depth)
        found: list[tuple[Value, Value]] = []

        def element() -> None:
            if isinstance(node, ast.DictComp):
                found.append((machine.eval(node.key, inner), machine.eval(node.value, inner)))
            else:
                found.append((NONE, machine.eval(node.elt, inner)))

        certain = _generate(machine, node.generators, inner, element)
        if kind != "dict":
            items = [value for _, value in found] if certain else []
            if not certain:
                return Seq(items, kind, open=True) if not found else Sym("comprehension", [value for _, value in found])
            return Seq(items, kind)
        result = Map(open=not certain)
        for key, value in found:
            if isinstance(key, Lit):
                result.items[key.value] = _under_name(value, key.value)
            else:
                result.open = True
        return result

    return build


def _generate(machine: Machine, generators: list[ast.comprehension], frame: Frame, element: Callable[[], None]) -> bool:
    """Run nested ``for`` clauses; whether every item and condition was known."""
    if not generators:
        element()
        return True
    first, rest = generators[0], generators[1:]
    source = machine.eval(first.iter, frame)
    items = items_of(machine, source)
    site = Site(frame.module.file, first.iter.lineno)
    if items is None or len(items) > UNROLL_LIMIT:
        assign_target(machine, first.target, unknown("item", source), frame, site)
        for condition in first.ifs:
            machine.eval(condition, frame)
        _generate(machine, rest, frame, element)
        return False
    certain = not (isinstance(source, Seq | Map) and source.open)
    for item in items:
        assign_target(machine, first.target, item, frame, site)
        answers = [truth(machine.eval(condition, frame)) for condition in first.ifs]
        if False in answers:
            continue
        if None in answers:
            certain = False
        certain = _generate(machine, rest, frame, element) and certain
    return certain


def walrus(machine: Machine, node: ast.NamedExpr, frame: Frame) -> Value:
    value = machine.eval(node.value, frame)
    assign_target(machine, node.target, value, frame, Site(frame.module.file, node.lineno))
    return value


def awaited(machine: Machine, node: ast.Await | ast.Starred, frame: Frame) -> Value:
    return machine.eval(node.value, frame)


def yielded(machine: Machine, node: ast.Yield | ast.YieldFrom, frame: Frame) -> Value:
    value = NONE if node.value is None else machine.eval(node.value, frame)
    if frame.yields is not None and len(frame.yields) < 2_000:
        if isinstance(node, ast.YieldFrom):
            frame.yields.extend(items_of(machine, value) or [unknown("item", value)])
        else:
            frame.yields.append(value)
    return NONE


HANDLERS: dict[type[ast.AST], Callable[[Machine, Any, Frame], Value]] = {
    ast.Constant: constant,
    ast.Name: name,
    ast.Attribute: attribute,
    ast.Subscript: subscript,
    ast.BinOp: binary_operation,
    ast.UnaryOp: unary_operation,
    ast.BoolOp: boolean_operation,
    ast.Compare: comparison,
    ast.IfExp: conditional,
    ast.List: sequence("list"),
    ast.Tuple: sequence("tuple"),
    ast.Set: sequence("set"),
    ast.Dict: dictionary,
    ast.JoinedStr: formatted,
    ast.Call: call,
    ast.Lambda: lambda_,
    ast.ListComp: comprehension("list"),
    ast.GeneratorExp: comprehension("list"),
    ast.SetComp: comprehension("set"),
    ast.DictComp: comprehension("dict"),
    ast.NamedExpr: walrus,
    ast.Await: awaited,
    ast.Starred: awaited,
    ast.Yield: yielded,
    ast.YieldFrom: yielded,
}
