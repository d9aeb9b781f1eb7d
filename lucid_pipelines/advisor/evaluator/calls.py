"""Calling values: functions of the snapshot, classes, modelled and unmodelled library objects."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.branches import either
from lucid_pipelines.advisor.evaluator.classes import instantiate
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Frame,
    Func,
    Lit,
    Map,
    Model,
    Native,
    Obj,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine


def call_value(machine: Machine, callee: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Call any value; what cannot be called is unknown."""
    machine.tick()
    if isinstance(callee, Func):
        return call_function(machine, callee, args, kwargs, site)
    if isinstance(callee, Native):
        return callee.call(machine, args, kwargs, site)
    if isinstance(callee, Sym):
        return call_library(machine, callee, args, kwargs, site)
    if isinstance(callee, Cls):
        return instantiate(machine, callee, args, kwargs, site)
    if isinstance(callee, Model):
        result = callee.invoke(machine, args, kwargs, site)
        return unknown("call", callee) if result is None else result
    if isinstance(callee, Obj):
        method = callee.cls.find("__call__")
        if isinstance(method, Func):
            return call_function(machine, method.bind(callee), args, kwargs, site)
        return unknown(f"{callee.cls.name}()()", *args)
    return unknown("call", callee)


def call_library(machine: Machine, callee: Sym, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Call something of a library: by its model, if there is one; it is noted in any case."""
    result = machine.note_call(callee.path, args, kwargs, site)
    model = machine.library.calls.get(callee.path)
    if model is None:
        model = machine.library.endings.get(callee.path.rpartition(".")[2])
    if model is not None:
        modelled = model(machine, args, kwargs, site)
        if modelled is not NOT_MODELLED:
            return modelled
    return result


NOT_MODELLED = Native("<not modelled>", lambda machine, args, kwargs, site: NONE)
"""What a library model returns when it does not know the answer after all."""


SIDE_WORK = re.compile(
    r"^_?(eval|evaluate|evaluation|evaluate_\w+|eval_\w+|validate|validation|validate_(epoch|one_epoch|model|step)|val|val_epoch"
    r"|test|test_(epoch|model|step)|infer|inference|predict|predict_\w+|plot\w*|visuali[sz]e\w*|draw_\w+|save|save_\w+"
    r"|export_\w+|log|log_\w+|print_\w+|dump_\w*|summari[sz]e\w*|forward|forward_\w+|generate|generate_samples|sample_images"
    r"|download_\w+|compute_metrics|profile_\w+|display_\w+)$"
)
"""Functions that a training program calls beside its training: their bodies say nothing about the job."""


def call_function(machine: Machine, func: Func, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Walk through a function of the snapshot with these arguments."""
    entry = func.extra.get("entry")
    if callable(entry):
        handled = entry(machine, func, args, kwargs, site)
        if isinstance(handled, Value):
            return handled
    if SIDE_WORK.match(func.name):
        return unknown(f"{func.name}()")
    count = machine.call_counts.get(id(func.node), 0) + 1
    machine.call_counts[id(func.node)] = count
    most = machine.budget.calls_per_function if machine.journal is None else machine.budget.uncertain_calls
    if func.name.startswith("__"):
        most *= 4
    if machine.depth >= machine.budget.call_depth or count > most:
        machine.trace.gap("call depth" if machine.depth >= machine.budget.call_depth else "call count")
        return unknown(f"{func.name}()")
    names = bind_arguments(func, args, kwargs)
    machine.note_parameters(names, site)
    machine.made(names)
    frame = Frame(func.module, names, parent=func.closure, function=func, depth=machine.depth + 1)
    if func.module.state == "new":
        machine.run_module(func.module)
    node = func.node
    if isinstance(node, ast.Lambda):
        expression = node.body
        return _guarded(machine, lambda: machine.eval(expression, frame))
    if _is_generator(node):
        frame.yields = []
    body = node.body

    def run() -> Value:
        signal = machine.run_block(body, frame)
        result = signal.value if signal is not None and signal.kind == "return" else NONE
        if frame.yields is not None:
            return Seq(frame.yields, "generator", open=bool(frame.maybe_returns))
        if frame.maybe_returns:
            ended = signal is not None and signal.kind == "return"
            options = [*frame.maybe_returns, result] if ended or not _only_raises(body) else frame.maybe_returns
            return either(options)
        return result

    return _guarded(machine, run)


def _guarded(machine: Machine, run: Callable[[], Value]) -> Value:
    machine.depth += 1
    try:
        return run()
    except RecursionError:
        machine.trace.gap("recursion")
        return unknown("recursion")
    finally:
        machine.depth -= 1


def _only_raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    known = node.__dict__.get("_is_generator")
    if known is None:
        known = False
        todo: list[ast.AST] = list(node.body)
        while todo:
            part = todo.pop()
            if isinstance(part, ast.Yield | ast.YieldFrom):
                known = True
                break
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                todo.extend(ast.iter_child_nodes(part))
        node.__dict__["_is_generator"] = known
    return bool(known)


def bind_arguments(func: Func, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """Names of a function's frame. Parameters that are not given and have no default are unknown."""
    arguments = func.node.args
    parameters = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if func.bound is not None:
        args = [func.bound, *args]
    names: dict[str, Value] = dict(zip(parameters[len(parameters) - len(func.defaults) :], func.defaults, strict=True))
    names.update(func.kw_defaults)
    open_args = any(isinstance(arg, Sym) and arg.path == "*" for arg in args)
    if "**" in kwargs:
        # What an unknown mapping passes may stand above any default.
        names = {
            name: Sym("either", [value, kwargs["**"]], tags=frozenset({"either"})) for name, value in names.items()
        }
    for parameter, value in zip(parameters, args, strict=False):
        names[parameter] = _under_name(value, parameter)
    if arguments.vararg is not None:
        names[arguments.vararg.arg] = Seq(args[len(parameters) :], "tuple", open=open_args)
    known = {*parameters, *(argument.arg for argument in arguments.kwonlyargs)}
    extra = Map(open="**" in kwargs)
    for key, value in kwargs.items():
        if key in known:
            names[key] = _under_name(value, key)
        elif key != "**":
            extra.items[key] = value
    if arguments.kwarg is not None:
        names[arguments.kwarg.arg] = extra
    for parameter in known:
        if parameter not in names:
            names[parameter] = Sym(f"{func.name}({parameter})")
    return names


def _under_name(value: Value, name: str) -> Value:
    if isinstance(value, Lit) and value.origin is not None and value.origin.name is None:
        return Lit(value.value, value.origin.named(name))
    return value
