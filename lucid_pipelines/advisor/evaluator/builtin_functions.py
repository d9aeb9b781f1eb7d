"""Python's builtins: models of those about numbers, texts and sequences, and the table of all of them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.access import get_item
from lucid_pipelines.advisor.evaluator.builtin_code import eval_, exec_
from lucid_pipelines.advisor.evaluator.builtin_objects import (
    dir_,
    getattr_,
    globals_,
    hasattr_,
    isinstance_,
    issubclass_,
    locals_,
    setattr_,
    super_,
    type_,
    vars_,
)
from lucid_pipelines.advisor.evaluator.expressions import shown_text
from lucid_pipelines.advisor.evaluator.iterate import items_of, range_bounds
from lucid_pipelines.advisor.evaluator.methods import sorted_items
from lucid_pipelines.advisor.evaluator.operators import binary, compare, derived, truth
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    TRUE,
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
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def _number(kind: Callable[[Any], Any], name: str) -> Callable[[Machine, Args, Kwargs, Site], Value]:
    def convert(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
        if not args:
            return Lit(kind(0))
        value = args[0]
        if isinstance(value, Lit):
            if len(args) > 1 or (isinstance(value.value, str) and len(value.value) > 60):
                return unknown(name, value)
            try:
                return Lit(kind(value.value), value.origin)  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError) as error:
                return machine.fail(type(error).__name__, str(error))
        return unknown(name, value)

    return convert


def text(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if not args:
        return Lit("")
    shown = shown_text(args[0])
    if shown is None and isinstance(args[0], Obj):
        method = args[0].cls.find("__str__") or args[0].cls.find("__repr__")
        if isinstance(method, Func):
            return machine.call(method.bind(args[0]), [], {}, site)
    if shown is None:
        return unknown("str", args[0])
    return Lit(shown, args[0].origin if isinstance(args[0], Lit) else None)


def boolean(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if not args:
        return FALSE
    answer = truth(args[0])
    if answer is None:
        return unknown("bool", args[0])
    return Lit(answer, args[0].origin if isinstance(args[0], Lit) else None)


def length(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Obj):
        method = value.cls.find("__len__")
        if isinstance(method, Func):
            return machine.call(method.bind(value), [], {}, site)
        value = value.payload or value
    if isinstance(value, Seq | Map):
        return (
            unknown("len", value)
            if value.open
            else Lit(len(value.items), Origin(SourceKind.CODE, site.file, site.line))
        )
    if isinstance(value, Lit) and isinstance(value.value, str | bytes):
        return derived(len(value.value), (value,), site)
    bounds = range_bounds(value)
    return Lit(len(range(*bounds))) if bounds is not None else unknown("len", value)


def _extreme(largest: bool) -> Callable[[Machine, Args, Kwargs, Site], Value]:
    name = "max" if largest else "min"

    def choose(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
        items = items_of(machine, args[0]) if len(args) == 1 else args
        if not items or not all(isinstance(item, Lit) for item in items) or "key" in kwargs:
            return unknown(name, *(items or args))
        known = [item for item in items if isinstance(item, Lit)]
        try:
            pick = max if largest else min
            return pick(known, key=lambda item: item.value)  # type: ignore[arg-type,return-value]
        except TypeError:
            return unknown(name)

    return choose


def total(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    items = items_of(machine, args[0]) if args else None
    if items is None:
        return unknown("sum", *args)
    result: Value = args[1] if len(args) > 1 else Lit(0, Origin(SourceKind.CODE, site.file, site.line))
    for item in items:
        result = binary("+", result, item, site)
    return result


def range_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    return Sym("range", args, site=site)


def sequence(kind: str) -> Callable[[Machine, Args, Kwargs, Site], Value]:
    def build(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
        if not args:
            return Seq([], kind)
        items = items_of(machine, args[0])
        if items is None:
            return unknown(kind, args[0])
        is_open = isinstance(args[0], Seq | Map) and args[0].open
        if kind == "set":
            distinct: list[Value] = []
            for item in items:
                if not any(compare(ast.Eq(), item, other) is True for other in distinct):
                    distinct.append(item)
            items = distinct
        return Seq(items, kind, open=is_open)

    return build


def dictionary(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    result = Map()
    update = machine.attribute(result, "update", site)
    machine.call(update, args, {key: value for key, value in kwargs.items() if key != "**"}, site)
    result.open |= "**" in kwargs
    return result


def zipped(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    columns = [items_of(machine, arg) for arg in args]
    if any(column is None for column in columns):
        return unknown("zip", *args)
    rows = zip(*(column or [] for column in columns), strict=False)
    return Seq([Seq(list(row), "tuple") for row in rows])


def enumerated(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    items = items_of(machine, args[0]) if args else None
    start = args[1] if len(args) > 1 else kwargs.get("start", Lit(0))
    if items is None or not isinstance(start, Lit) or not isinstance(start.value, int):
        return Sym("enumerate", args)
    return Seq([Seq([Lit(number), item], "tuple") for number, item in enumerate(items, start.value)])


def mapped(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    items = items_of(machine, args[1]) if len(args) == 2 else None
    if items is None or len(items) > 256:
        return unknown("map", *args)
    return Seq([machine.call(args[0], [item], {}, site) for item in items])


def filtered(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    items = items_of(machine, args[1]) if len(args) == 2 else None
    if items is None or len(items) > 256:
        return unknown("filter", *args)
    kept: list[Value] = []
    for item in items:
        keeps = item if isinstance(args[0], Lit) else machine.call(args[0], [item], {}, site)
        answer = truth(keeps)
        if answer is None:
            return unknown("filter", *args)
        if answer:
            kept.append(item)
    return Seq(kept)


def _every(all_of: bool) -> Callable[[Machine, Args, Kwargs, Site], Value]:
    def decide(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
        items = items_of(machine, args[0]) if args else None
        if items is None:
            return unknown("all" if all_of else "any", *args)
        answers = [truth(item) for item in items]
        if (not all_of) in answers:
            return Lit(not all_of)
        return unknown("all" if all_of else "any") if None in answers else Lit(all_of)

    return decide


def sort(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    items = items_of(machine, args[0]) if args else None
    if items is None:
        return unknown("sorted", *args)
    key = kwargs.get("key")
    reverse = truth(kwargs.get("reverse", FALSE)) is True
    if key is None or (isinstance(key, Lit) and key.value is None):
        ordered = sorted_items(items)
    elif len(items) > 256:
        ordered = None
    else:
        keyed = [(machine.call(key, [item], {}, site), item) for item in items]
        known = [(value.value, item) for value, item in keyed if isinstance(value, Lit)]
        try:
            known.sort(key=lambda pair: pair[0])  # type: ignore[arg-type,return-value]
        except TypeError:
            known = []
        ordered = [item for _, item in known] if len(known) == len(items) else None
    if ordered is None:
        return Seq(items)
    return Seq(list(reversed(ordered)) if reverse else ordered)


def round_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if all(isinstance(arg, Lit) for arg in args) and args:
        try:
            known = [arg for arg in args if isinstance(arg, Lit)]
            return derived(round(*(arg.value for arg in known)), tuple(known[:1]), site)  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError):
            return unknown("round")
    return unknown("round", *args)


def absolute(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Lit) and isinstance(value.value, int | float):
        return derived(abs(value.value), (value,), site)
    return unknown("abs", *args)


def callable_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Func | Native | Cls):
        return TRUE
    return FALSE if isinstance(value, Lit | Seq | Map) else unknown("callable")


def iter_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    return args[0] if len(args) == 1 else unknown("iter")


def next_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Seq):
        if value.items:
            machine.touch(value)
            return value.items.pop(0) if value.kind == "generator" else value.items[0]
        return args[1] if len(args) > 1 else unknown("next")
    return unknown("next", *args)


def ignore(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    return NONE


def leave(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    """``exit()``: inside an uncertain branch it means that the branch is not the one that trains."""
    if machine.journal is not None:
        raise machine.error_type("SystemExit")
    machine.trace.gap("exit")
    return NONE


def item_getter(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    key = args[0] if args else NONE
    return Native("itemgetter", lambda m, inner, named, at: get_item(m, inner[0], key, at) if inner else NONE)


def builtin_values() -> dict[str, Value]:
    """Names of Python's builtins and what they mean here."""
    modelled: dict[str, Callable[[Machine, Args, Kwargs, Site], Value]] = {
        "int": _number(int, "int"),
        "float": _number(float, "float"),
        "str": text,
        "bool": boolean,
        "len": length,
        "max": _extreme(True),
        "min": _extreme(False),
        "sum": total,
        "range": range_,
        "xrange": range_,
        "list": sequence("list"),
        "tuple": sequence("tuple"),
        "set": sequence("set"),
        "frozenset": sequence("set"),
        "dict": dictionary,
        "zip": zipped,
        "enumerate": enumerated,
        "map": mapped,
        "filter": filtered,
        "all": _every(True),
        "any": _every(False),
        "sorted": sort,
        "round": round_,
        "abs": absolute,
        "getattr": getattr_,
        "hasattr": hasattr_,
        "setattr": setattr_,
        "vars": vars_,
        "globals": globals_,
        "locals": locals_,
        "dir": dir_,
        "super": super_,
        "type": type_,
        "isinstance": isinstance_,
        "issubclass": issubclass_,
        "callable": callable_,
        "iter": iter_,
        "next": next_,
        "exec": exec_,
        "compile": lambda m, args, kwargs, site: args[0] if args else unknown("compile"),
        "eval": eval_,
        "print": ignore,
        "input": lambda m, args, kwargs, site: unknown("input"),
        "exit": leave,
        "quit": leave,
        "repr": text,
    }
    values: dict[str, Value] = {name: Native(name, call) for name, call in modelled.items()}
    for name in dir(builtins):
        if name not in values and not name.startswith("__"):
            values[name] = Sym(name)
    values["__file__"] = Sym("__file__")
    values["object"] = Sym("object")
    values["__builtins__"] = Sym("__builtins__")
    return values
