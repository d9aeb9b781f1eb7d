"""How each kind of statement is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from lucid_pipelines.advisor.evaluator.access import get_attribute, get_item, set_attribute, set_item
from lucid_pipelines.advisor.evaluator.branches import Effects, Journal, merge, run_alternatives
from lucid_pipelines.advisor.evaluator.classes import define_class
from lucid_pipelines.advisor.evaluator.iterate import UNROLL_LIMIT, items_of
from lucid_pipelines.advisor.evaluator.machine import Machine, RaisedError, Signal, catches
from lucid_pipelines.advisor.evaluator.operators import SYMBOLS, binary, compare, truth
from lucid_pipelines.advisor.evaluator.trace import LoopEvent
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Frame,
    Func,
    Lazy,
    Lit,
    Map,
    Mod,
    Obj,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

MAX_WHILE = 64


def _site(frame: Frame, node: ast.AST) -> Site:
    return Site(frame.module.file, getattr(node, "lineno", 0))


# ---------------------------------------------------------------------- assignment


def assign(machine: Machine, node: ast.Assign, frame: Frame) -> None:
    value = machine.eval(node.value, frame)
    for target in node.targets:
        assign_target(machine, target, value, frame, _site(frame, node))


def annotated(machine: Machine, node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is None:
        return
    value = machine.eval(node.value, frame)
    if frame.is_class and isinstance(node.target, ast.Name):
        # A field with its default: what instances hold is noted with them.
        machine.bind(node.target.id, _named(value, node.target.id), frame)
        return
    assign_target(machine, node.target, value, frame, _site(frame, node))


def augmented(machine: Machine, node: ast.AugAssign, frame: Frame) -> None:
    old = machine.eval(_as_load(node.target), frame)
    right = machine.eval(node.value, frame)
    symbol = SYMBOLS[type(node.op)]
    if symbol == "+" and isinstance(old, Seq) and old.kind == "list":
        # In place: other names of the same list see the change.
        machine.touch(old)
        items = items_of(machine, right)
        if items is None:
            old.open = True
        else:
            old.items.extend(items)
        return
    value = binary(symbol, old, right, _site(frame, node), _whole(node))
    assign_target(machine, node.target, value, frame, _site(frame, node))


def _whole(node: ast.AugAssign) -> ast.BinOp:
    return ast.BinOp(left=_as_load(node.target), op=node.op, right=node.value)


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    if isinstance(target, ast.Name):
        twin: ast.expr = ast.Name(target.id, ast.Load())
    elif isinstance(target, ast.Attribute):
        twin = ast.Attribute(target.value, target.attr, ast.Load())
    else:
        twin = ast.Subscript(target.value, target.slice, ast.Load())
    return ast.copy_location(twin, target)


def assign_target(machine: Machine, target: ast.expr, value: Value, frame: Frame, site: Site) -> None:
    """Bind a value to a name, attribute, item or pattern of them."""
    if isinstance(target, ast.Name):
        value = _named(value, target.id)
        machine.bind(target.id, value, frame)
        if isinstance(value, Lit):
            machine.trace.assign(target.id, value, site, _scope(frame), certain=machine.journal is None)
        elif isinstance(value, Obj) and value.site is not None:
            machine.trace.name_instance(value, target.id)
        elif isinstance(value, Sym) and value.tags:
            machine.trace.assign_symbol(target.id, value)
    elif isinstance(target, ast.Attribute):
        value = _named(value, target.attr)
        set_attribute(machine, machine.eval(target.value, frame), target.attr, value, site)
        if isinstance(value, Lit):
            owner = _dotted(target.value)
            scope = ("attribute", site.file, owner)
            machine.trace.assign(target.attr, value, site, scope, owner, certain=machine.journal is None)
        elif isinstance(value, Obj) and value.site is not None:
            machine.trace.name_instance(value, target.attr)
        elif isinstance(value, Sym) and value.tags:
            machine.trace.assign_symbol(target.attr, value)
    elif isinstance(target, ast.Subscript):
        owner = machine.eval(target.value, frame)
        if isinstance(target.slice, ast.Slice):
            return
        key = machine.eval(target.slice, frame)
        if isinstance(key, Lit) and isinstance(key.value, str):
            value = _named(value, key.value)
            if isinstance(owner, Sym) and len(machine.trace.overwritten) < 200:
                machine.trace.overwritten.add(key.value)
        set_item(machine, owner, key, value, site)
    elif isinstance(target, ast.Starred):
        assign_target(machine, target.value, value, frame, site)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(machine, target.elts, value, frame, site)


def _dotted(node: ast.expr) -> str:
    """``a.b`` for a chain of names, else nothing."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _scope(frame: Frame) -> object:
    """What tells variables of the same name apart."""
    if frame.names is frame.module.globals:
        return id(frame.names)
    return (frame.module.file, frame.function.name if frame.function is not None else "")


def _named(value: Value, name: str) -> Value:
    if isinstance(value, Lit) and value.origin is not None and value.origin.name is None:
        return Lit(value.value, value.origin.named(name))
    return value


def _unpack(machine: Machine, targets: Sequence[ast.expr], value: Value, frame: Frame, site: Site) -> None:
    items = items_of(machine, value)
    starred = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    if items is not None and starred is not None and len(items) >= len(targets) - 1:
        after = len(targets) - starred - 1
        middle = items[starred : len(items) - after]
        parts = [*items[:starred], Seq(middle), *items[len(items) - after :]]
    elif items is not None and len(items) == len(targets):
        parts = items
    else:
        parts = [
            Sym(f"{value.path}[{i}]", tags=value.tags)
            if isinstance(value, Sym) and not value.args
            else unknown("item", value)
            for i in range(len(targets))
        ]
    for target, part in zip(targets, parts, strict=False):
        assign_target(machine, target, part, frame, site)


def delete(machine: Machine, node: ast.Delete, frame: Frame) -> None:
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            owner = machine.eval(target.value, frame)
            key = machine.eval(target.slice, frame) if not isinstance(target.slice, ast.Slice) else NONE
            inner = owner.payload if isinstance(owner, Obj) and owner.payload is not None else owner
            if isinstance(inner, Map) and isinstance(key, Lit) and key.value in inner.items:
                if machine.journal is not None:
                    machine.journal.note(inner.items, key.value)
                del inner.items[key.value]
        elif isinstance(target, ast.Attribute):
            owner = machine.eval(target.value, frame)
            if isinstance(owner, Obj) and target.attr in owner.attrs:
                if machine.journal is not None:
                    machine.journal.note(owner.attrs, target.attr)
                del owner.attrs[target.attr]


# ---------------------------------------------------------------------- control flow


def expression(machine: Machine, node: ast.Expr, frame: Frame) -> None:
    if not isinstance(node.value, ast.Constant):
        machine.eval(node.value, frame)


def if_(machine: Machine, node: ast.If, frame: Frame) -> Signal | None:
    condition = machine.eval(node.test, frame)
    answer = truth(condition)
    if answer is None:
        answer = assumed(condition)
    if answer is not None:
        return machine.run_block(node.body if answer else node.orelse, frame)
    return run_alternatives(
        machine,
        frame,
        [lambda: machine.run_block(node.body, frame), lambda: machine.run_block(node.orelse, frame)],
        RaisedError,
    )


def assumed(condition: Value) -> bool | None:
    """What to take for a condition that only the running job could answer; ``None`` = try both ways.

    A job is taken to start fresh: checkpoints and other files outside its snapshot do not exist yet.
    """
    if isinstance(condition, Sym) and "fresh_start" in condition.tags:
        if condition.path == "not":
            inner = assumed(condition.args[0])
            return None if inner is None else not inner
        if condition.path == "exists":
            return False
    return None


def for_(machine: Machine, node: ast.For | ast.AsyncFor, frame: Frame) -> Signal | None:
    source = machine.eval(node.iter, frame)
    site = _site(frame, node)
    machine.trace.loops.append(LoopEvent(ast.unparse(node.target), source, site, node)) if len(
        machine.trace.loops
    ) < 2_000 else None
    items = items_of(machine, source)
    if items is not None and len(items) <= UNROLL_LIMIT and not _is_training_loop(node, items):
        for item in items:
            assign_target(machine, node.target, item, frame, site)
            signal = machine.run_block(node.body, frame)
            if signal is not None and signal.kind == "break":
                return None
            if signal is not None and signal.kind == "return":
                return signal
        return machine.run_block(node.orelse, frame)
    return _run_once(
        machine, node.body, frame, lambda: assign_target(machine, node.target, unknown("item", source), frame, site)
    )


def _is_training_loop(node: ast.For | ast.AsyncFor, items: list[Value]) -> bool:
    """Whether a loop over numbers is better walked once than as often as it says."""
    return len(items) > 8 and all(isinstance(item, Lit) and isinstance(item.value, int) for item in items)


def _run_once(machine: Machine, body: Sequence[ast.stmt], frame: Frame, before: Callable[[], None]) -> Signal | None:
    """Walk a loop body once for an unknown item; what it changes becomes uncertain."""
    outer = machine.journal
    journal = Journal(outer)
    machine.journal = journal
    signal: Signal | None = None
    try:
        before()
        signal = machine.run_block(body, frame)
    except RaisedError:
        machine.trace.gap("raise in a loop")
    finally:
        machine.journal = outer
    merge(machine, [journal.undo(), Effects()])
    if signal is not None and signal.kind == "return":
        frame.maybe_returns.append(signal.value)
    return None


def while_(machine: Machine, node: ast.While, frame: Frame) -> Signal | None:
    site = _site(frame, node)
    for turn in range(MAX_WHILE):
        condition = machine.eval(node.test, frame)
        if turn == 0 and len(machine.trace.loops) < 2_000:
            machine.trace.loops.append(LoopEvent(ast.unparse(node.test), condition, site, node))
        answer = truth(condition)
        if answer is False:
            return machine.run_block(node.orelse, frame)
        endless = isinstance(node.test, ast.Constant)
        if answer is None or turn >= MAX_WHILE - 1:
            return _run_once(machine, node.body, frame, lambda: None)
        if endless or _counts_far(machine, node.test, frame):
            return _run_once(machine, node.body, frame, lambda: None)
        signal = machine.run_block(node.body, frame)
        if signal is not None and signal.kind == "break":
            return None
        if signal is not None and signal.kind == "return":
            return signal
    return None


def _counts_far(machine: Machine, test: ast.expr, frame: Frame) -> bool:
    """Whether a loop compares a counter with a number too large to count up to."""
    if not isinstance(test, ast.Compare):
        return False
    for part in (test.left, *test.comparators):
        value = machine.eval(part, frame)
        if isinstance(value, Lit) and isinstance(value.value, int | float) and abs(value.value) > MAX_WHILE:
            return True
    return False


def try_(machine: Machine, node: ast.Try, frame: Frame) -> Signal | None:
    kinds: list[str] = []
    catch_all = False
    for handler in node.handlers:
        names = _exception_names(handler.type)
        catch_all |= not names
        kinds.extend(names)
    machine.handlers.append(() if catch_all else tuple(kinds) or ("<nothing>",))
    signal: Signal | None = None
    try:
        signal = machine.run_block(node.body, frame)
        handled = None
    except RaisedError as error:
        handled = error
    finally:
        machine.handlers.pop()
    try:
        if handled is not None:
            for handler in node.handlers:
                if catches(_exception_names(handler.type), handled.name):
                    if handler.name:
                        machine.bind(handler.name, Sym(f"{handled.name}()"), frame)
                    signal = machine.run_block(handler.body, frame)
                    break
            else:
                raise handled
        elif signal is None:
            signal = machine.run_block(node.orelse, frame)
    finally:
        if node.finalbody:
            signal = machine.run_block(node.finalbody, frame) or signal
    return signal


def _exception_names(node: ast.expr | None) -> tuple[str, ...]:
    if node is None:
        return ()
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "?") for part in parts)


def raise_(machine: Machine, node: ast.Raise, frame: Frame) -> Signal | None:
    name = "Exception"
    target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if isinstance(target, ast.Attribute):
        name = target.attr
    elif isinstance(target, ast.Name):
        name = target.id
    if machine.journal is not None or machine.can_catch(name):
        raise RaisedError(name)
    # A job that was submitted is taken to run: a check that fails here is a gap of this evaluation.
    machine.trace.gap(f"raise {name}")
    return None


def with_(machine: Machine, node: ast.With | ast.AsyncWith, frame: Frame) -> Signal | None:
    for item in node.items:
        value = machine.eval(item.context_expr, frame)
        entered = value
        if isinstance(value, Obj) and isinstance(value.cls.find("__enter__"), Func):
            entered = machine.call(
                machine.attribute(value, "__enter__", _site(frame, node)), [], {}, _site(frame, node)
            )
        elif isinstance(value, Seq) and len(value.items) == 1 and value.kind == "generator":
            entered = value.items[0]
        if item.optional_vars is not None:
            assign_target(machine, item.optional_vars, entered, frame, _site(frame, node))
    return machine.run_block(node.body, frame)


def return_(machine: Machine, node: ast.Return, frame: Frame) -> Signal:
    return Signal("return", NONE if node.value is None else machine.eval(node.value, frame))


def match_(machine: Machine, node: ast.Match, frame: Frame) -> Signal | None:
    subject = machine.eval(node.subject, frame)
    possible: list[list[ast.stmt]] = []
    for case in node.cases:
        answer = _matches(machine, case.pattern, subject, frame)
        if answer is not False and case.guard is not None:
            answer = truth(machine.eval(case.guard, frame)) if answer else None
        if answer is False:
            continue
        possible.append(case.body)
        if answer is True:
            break
    else:
        possible.append([])
    if len(possible) == 1:
        return machine.run_block(possible[0], frame)
    runs = [lambda body=body: machine.run_block(body, frame) for body in possible]
    return run_alternatives(machine, frame, runs, RaisedError)


def _matches(machine: Machine, pattern: ast.pattern, subject: Value, frame: Frame) -> bool | None:
    if isinstance(pattern, ast.MatchValue):
        return compare(ast.Eq(), subject, machine.eval(pattern.value, frame))
    if isinstance(pattern, ast.MatchSingleton):
        return compare(ast.Is(), subject, Lit(pattern.value))
    if isinstance(pattern, ast.MatchOr):
        answers = [_matches(machine, part, subject, frame) for part in pattern.patterns]
        return True if True in answers else (None if None in answers else False)
    if isinstance(pattern, ast.MatchAs):
        answer = True if pattern.pattern is None else _matches(machine, pattern.pattern, subject, frame)
        if pattern.name and answer is not False:
            machine.bind(pattern.name, subject, frame)
        return answer
    return None


# ---------------------------------------------------------------------- definitions


def function(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    made: Value = make_function(machine, node.name, node, frame)
    name = node.name
    for decorator in reversed(node.decorator_list):
        made, name = _decorate(machine, made, name, decorator, frame)
    machine.bind(name, made, frame)


def make_function(
    machine: Machine, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, frame: Frame
) -> Func:
    """A function value with its evaluated defaults."""
    closure = None if frame.names is frame.module.globals else frame
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in positional[len(positional) - len(arguments.defaults) :]]
    defaults = [
        _as_default(machine.eval(default, frame), parameter)
        for parameter, default in zip(names, arguments.defaults, strict=True)
    ]
    kw_defaults = {
        argument.arg: _as_default(machine.eval(default, frame), argument.arg)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    return Func(name, node, frame.module, closure, defaults, kw_defaults)


def _as_default(value: Value, name: str) -> Value:
    """A literal default under the parameter's name; a default that was read elsewhere keeps its origin."""
    if isinstance(value, Lit) and value.origin is not None and value.origin.kind is SourceKind.CODE:
        origin = value.origin
        if origin.name is None:
            kind = SourceKind.DEFAULT
            return Lit(value.value, Origin(kind, origin.file, origin.line, name, origin.node, origin.inputs))
    return value


_TRANSPARENT_ROLES = {
    "property": "property",
    "cached_property": "property",
    "staticmethod": "static",
    "classmethod": "class",
}


def _decorate(machine: Machine, made: Value, name: str, node: ast.expr, frame: Frame) -> tuple[Value, str]:
    target = node.func if isinstance(node, ast.Call) else node
    last = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    if isinstance(made, Func):
        if last in _TRANSPARENT_ROLES:
            made.role = _TRANSPARENT_ROLES[last]
            return made, name
        if last == "setter":
            return made, f"{name}.setter"
        if last in ("getter", "deleter", "overload", "abstractmethod", "no_grad", "inference_mode", "jit"):
            return made, name
    decorator = machine.eval(node, frame)
    if isinstance(decorator, Sym) and "()" in decorator.path and not isinstance(node, ast.Call):
        return made, name
    machine.caller = frame
    result = machine.call(decorator, [made], {}, _site(frame, node))
    # A decorator of an unknown library is taken to leave the function usable as it is.
    return (made if isinstance(result, Sym) or (isinstance(result, Lit) and result.value is None) else result), name


def class_(machine: Machine, node: ast.ClassDef, frame: Frame) -> None:
    made: Value = define_class(machine, node, frame)
    for decorator in reversed(node.decorator_list):
        value = machine.eval(decorator, frame)
        machine.caller = frame
        result = machine.call(value, [made], {}, _site(frame, decorator))
        if isinstance(result, Cls):
            made = result
    machine.bind(node.name, made, frame)


def import_(machine: Machine, node: ast.Import, frame: Frame) -> None:
    site = _site(frame, node)
    for alias in node.names:
        top = alias.name.partition(".")[0]
        machine.trace.imports.setdefault(top, site)
        _run_path_setter(machine, alias.name)
        if alias.asname:
            machine.put(frame.names, alias.asname, Lazy(alias.name, None, frame.module.package, 0, site))
        else:
            machine.put(frame.names, top, Lazy(top, None, frame.module.package, 0, site))


_MAX_SETTER_CHARS = 8_000


def _run_path_setter(machine: Machine, name: str) -> None:
    """Modules run when they are first used, except small ones that change where modules are found."""
    module = machine.modules.find(name)
    if module is None or module.state != "new" or not module.file.endswith(".py"):
        return
    text = machine.tree.read_text(module.file)
    if text is not None and len(text) <= _MAX_SETTER_CHARS and "sys.path" in text:
        machine.run_module(module)


def import_from(machine: Machine, node: ast.ImportFrom, frame: Frame) -> None:
    site = _site(frame, node)
    if not node.level and node.module:
        machine.trace.imports.setdefault(node.module.partition(".")[0], site)
    for alias in node.names:
        if alias.name == "*":
            _import_star(machine, node, frame, site)
            continue
        lazy = Lazy(node.module or "", alias.name, frame.module.package, node.level, site)
        machine.put(frame.names, alias.asname or alias.name, lazy)


def _import_star(machine: Machine, node: ast.ImportFrom, frame: Frame, site: Site) -> None:
    target = machine.modules.absolute(node.module or "", frame.module.package, node.level)
    source = machine.module_value(target, site)
    if isinstance(source, Mod) and machine.may_run_stars():
        machine.run_star(source)
        for name, value in list(source.globals.items()):
            if not name.startswith("_") and name != "*":
                frame.names.setdefault(name, value)
    stars = frame.module.globals.setdefault("*", Seq([]))
    if isinstance(stars, Seq):
        stars.items.append(source)


def global_(machine: Machine, node: ast.Global, frame: Frame) -> None:
    frame.global_names.update(node.names)


def nonlocal_(machine: Machine, node: ast.Nonlocal, frame: Frame) -> None:
    frame.outer_names.update(node.names)


def check(machine: Machine, node: ast.Assert, frame: Frame) -> None:
    machine.eval(node.test, frame)


HANDLERS: dict[type[ast.AST], Callable[[Machine, Any, Frame], Signal | None]] = {
    ast.Assign: assign,
    ast.AnnAssign: annotated,
    ast.AugAssign: augmented,
    ast.Delete: delete,
    ast.Expr: expression,
    ast.If: if_,
    ast.For: for_,
    ast.AsyncFor: for_,
    ast.While: while_,
    ast.Try: try_,
    ast.Raise: raise_,
    ast.With: with_,
    ast.AsyncWith: with_,
    ast.Return: return_,
    ast.Break: lambda machine, node, frame: Signal("break"),
    ast.Continue: lambda machine, node, frame: Signal("continue"),
    ast.Match: match_,
    ast.FunctionDef: function,
    ast.AsyncFunctionDef: function,
    ast.ClassDef: class_,
    ast.Import: import_,
    ast.ImportFrom: import_from,
    ast.Global: global_,
    ast.Nonlocal: nonlocal_,
    ast.Assert: check,
}
__all__ = ["HANDLERS", "assign_target", "get_attribute", "get_item", "make_function"]
