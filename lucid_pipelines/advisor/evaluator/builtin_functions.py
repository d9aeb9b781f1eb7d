"""Models of Python's builtins."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.access import get_item, set_attribute
from lucid_pipelines.advisor.evaluator.branches import either
from lucid_pipelines.advisor.evaluator.classes import fill_fields, fill_payload
from lucid_pipelines.advisor.evaluator.expressions import shown_text
from lucid_pipelines.advisor.evaluator.iterate import items_of, range_bounds
from lucid_pipelines.advisor.evaluator.machine import RaisedError
from lucid_pipelines.advisor.evaluator.methods import sorted_items
from lucid_pipelines.advisor.evaluator.operators import binary, compare, derived, truth
from lucid_pipelines.advisor.evaluator.parsing import parse
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    TRUE,
    Cls,
    Frame,
    Func,
    Lit,
    Map,
    Mod,
    Model,
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


# ---------------------------------------------------------------------- objects


def getattr_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    name = text_of(args[1]) if len(args) > 1 else None
    if name is None:
        return unknown("getattr", *args)
    if len(args) == 2:
        return machine.attribute(args[0], name, site)
    if isinstance(args[0], Sym):
        return either([machine.attribute(args[0], name, site), args[2]])
    answer = has(machine, args[0], name, site)
    if answer is None:
        return either([machine.attribute(args[0], name, site), args[2]])
    return machine.attribute(args[0], name, site) if answer else args[2]


def has(machine: Machine, owner: Value, name: str, site: Site) -> bool | None:
    """Whether ``owner`` has an attribute; ``None`` when that is unknown."""
    if isinstance(owner, Sym):
        return None
    before = dict(machine.trace.gaps)
    machine.handlers.append(("AttributeError",))
    try:
        found = machine.attribute(owner, name, site)
    except RaisedError as error:
        if error.name != "AttributeError":
            raise
        return False
    finally:
        machine.handlers.pop()
    if isinstance(found, Sym) and found.path == "AttributeError":
        machine.trace.gaps.clear()
        machine.trace.gaps.update(before)
        return False
    if isinstance(owner, Obj) and owner.opaque and isinstance(found, Sym) and name not in owner.attrs:
        return None
    return None if isinstance(owner, Map) and owner.open and name not in owner.items else True


def hasattr_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    name = text_of(args[1]) if len(args) > 1 else None
    answer = has(machine, args[0], name, site) if name is not None else None
    return unknown("hasattr") if answer is None else Lit(answer)


def setattr_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    name = text_of(args[1]) if len(args) > 2 else None
    if name is not None:
        set_attribute(machine, args[0], name, args[2], site)
    return NONE


def vars_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if not args:
        return locals_(machine, args, kwargs, site)
    if isinstance(args[0], Map):
        return args[0]
    return machine.attribute(args[0], "__dict__", site)


def globals_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    return Map(machine.caller.module.globals) if machine.caller is not None else Map(open=True)


def locals_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    return Map(machine.caller.names) if machine.caller is not None else Map(open=True)


def dir_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    names = locals_(machine, args, kwargs, site) if not args else machine.attribute(args[0], "__dict__", site)
    return (
        Seq([Lit(name) for name in names.items if isinstance(name, str)]) if isinstance(names, Map) else unknown("dir")
    )


def super_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    frame: Frame | None = machine.caller
    while frame is not None and (frame.function is None or frame.function.owner is None):
        frame = frame.parent
    if frame is None or frame.function is None or frame.function.owner is None:
        return Sym("super")
    receiver = frame.function.bound
    return Super(frame.function.owner, receiver)


class Super(Model):
    """``super()``: the attributes of the classes above one class, bound to an instance."""

    __slots__ = ("owner", "receiver")

    def __init__(self, owner: Cls, receiver: Value | None) -> None:
        self.owner = owner
        self.receiver = receiver

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        start = self.receiver.cls if isinstance(self.receiver, Obj) else self.owner
        order = list(start.ancestry())
        above = order[order.index(self.owner) + 1 :] if self.owner in order else list(self.owner.ancestry())[1:]
        for cls in above:
            if isinstance(cls, Cls) and name in cls.attrs:
                found = machine.settle(cls.attrs, name)
                if isinstance(found, Func) and self.receiver is not None and found.role != "static":
                    bound = found.bind(self.receiver)
                    return machine.call(bound, [], {}, site) if found.role == "property" else bound
                return found
        receiver = self.receiver
        if isinstance(receiver, Obj):
            if name == "__init__":
                return Native("__init__", lambda m, args, kwargs, at: _base_init(m, receiver, args, kwargs, at))
            if name == "__setattr__":
                return Native("__setattr__", lambda m, args, kwargs, at: _plain_set(m, receiver, args))
            if receiver.payload is not None and name in ("__getitem__", "__setitem__", "get", "update", "__contains__"):
                return machine.attribute(receiver.payload, name, site)
        if name == "__new__":
            return Native("__new__", _new_instance)
        bases = self.owner.library_bases()
        return Sym(f"{bases[0] if bases else 'object'}.{name}")


def _base_init(machine: Machine, receiver: Obj, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if receiver.cls.decorated == "dataclass" and not receiver.attrs:
        from_fields = {name: spec.default for name, spec in receiver.cls.fields.items() if spec.default is not None}
        receiver.attrs.update(from_fields)
        receiver.attrs.update({key: value for key, value in kwargs.items() if key != "**"})
    elif receiver.payload is not None:
        fill_payload(machine, receiver, args, kwargs)
    elif receiver.cls.library_bases():
        machine.note_call(f"{receiver.cls.library_bases()[0]}.__init__", [receiver, *args], kwargs, site)
    return NONE


def _new_instance(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    """``super().__new__(cls, …)``: named tuples take their fields here."""
    cls = args[0] if args else NONE
    if not isinstance(cls, Cls):
        return unknown("__new__")
    made = Obj(cls, site)
    if cls.decorated == "namedtuple":
        fill_fields(machine, made, args[1:], kwargs, site)
    return made


def _plain_set(machine: Machine, receiver: Obj, args: Args) -> Value:
    name = text_of(args[0]) if len(args) == 2 else None
    if name is not None:
        machine.put(receiver.attrs, name, args[1])
    return NONE


def type_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    value = args[0] if args else NONE
    if len(args) == 3 and isinstance(args[2], Map) and machine.caller is not None:
        made = Cls(text_of(args[0]) or "type", machine.caller.module, None, items_of(machine, args[1]) or [])
        made.attrs = dict(args[2].items)
        return made
    if isinstance(value, Obj):
        return value.cls
    if isinstance(value, Lit):
        return machine.library.builtins.get(type(value.value).__name__, Sym("NoneType"))
    if isinstance(value, Seq):
        return machine.library.builtins.get(value.kind, Sym("list"))
    if isinstance(value, Map):
        return machine.library.builtins["dict"]
    return Sym("type()")


def isinstance_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if len(args) != 2:
        return unknown("isinstance")
    kinds = items_of(machine, args[1]) if isinstance(args[1], Seq) else [args[1]]
    answers = [_is_instance(args[0], kind) for kind in kinds or []]
    if True in answers:
        return TRUE
    return unknown("isinstance") if None in answers else FALSE


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": float, "str": str, "bool": bool, "bytes": bytes, "basestring": str, "long": int,
}  # fmt: skip
_SEQUENCE_KINDS = frozenset({"list", "tuple", "set", "frozenset"})


def _is_instance(value: Value, kind: Value) -> bool | None:
    name = kind.name if isinstance(kind, Native) else (kind.path.rpartition(".")[2] if isinstance(kind, Sym) else None)
    if isinstance(value, Lit):
        if name in _PYTHON_TYPES:
            return isinstance(value.value, _PYTHON_TYPES[name])
        if name == "NoneType":
            return value.value is None
        if name in ("Number", "Real"):
            return isinstance(value.value, int | float)
        return False
    if isinstance(value, Seq):
        if name in _SEQUENCE_KINDS:
            return value.kind == name
        return name in ("Sequence", "Iterable", "Collection", "ListConfig", "Sized")
    if isinstance(value, Map):
        return name in (
            "dict",
            "Mapping",
            "MutableMapping",
            "DictConfig",
            "OrderedDict",
            "ConfigDict",
            "EasyDict",
            "Namespace",
            "CfgNode",
            "Iterable",
            "Dict",
        )
    if isinstance(value, Obj):
        if isinstance(kind, Cls):
            return any(cls is kind for cls in value.cls.ancestry())
        if name in ("dict", "Mapping") and isinstance(value.payload, Map):
            return True
        if name is not None:
            return (
                True
                if any(base.rpartition(".")[2] == name for base in value.cls.library_bases())
                else (None if value.opaque else False)
            )
        return None
    if isinstance(value, Func | Native):
        return name in ("Callable", "FunctionType")
    if isinstance(value, Sym):
        last = value.path.rpartition(".")[2]
        if value.path.endswith("()") and last[:1].isupper() and name in _PYTHON_TYPES:
            return False
        return True if name is not None and last.removesuffix("()") == name and name[:1].isupper() else None
    return None


def issubclass_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    if len(args) == 2 and isinstance(args[0], Cls):
        kinds = items_of(machine, args[1]) if isinstance(args[1], Seq) else [args[1]]
        for kind in kinds or []:
            if any(cls is kind for cls in args[0].ancestry()):
                return TRUE
            if isinstance(kind, Sym) and kind.path in args[0].library_bases():
                return TRUE
        return FALSE
    return unknown("issubclass")


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


# ---------------------------------------------------------------------- code in strings


def exec_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    """Walk through code that the program keeps in a string or reads from a file of the snapshot."""
    frame = machine.caller
    source = args[0] if args else NONE
    code = text_of(source)
    if code is None or frame is None:
        return NONE
    origin = source.origin if isinstance(source, Lit) else None
    tree = parse(code) if len(code) < 400_000 else None
    if tree is None:
        machine.trace.gap("exec of unreadable code")
        return NONE
    whole_file = origin is not None and origin.name == WHOLE_FILE
    file = origin.file if whole_file and origin is not None else site.file
    kind = SourceKind.CONFIG if file in machine.modules.config_files else frame.module.kind
    # Relative imports of a file that is run this way start at its own folder.
    package = file.rpartition("/")[0].replace("/", ".") if whole_file else frame.module.package
    module = Mod(frame.module.name, file, package, kind)
    scope = args[1] if len(args) > 1 else kwargs.get("globals")
    if isinstance(scope, Map):
        module.globals = scope.items
    else:
        module.globals = frame.module.globals
    module.state = "done"
    local = args[2] if len(args) > 2 else kwargs.get("locals")
    if isinstance(local, Map):
        names: dict[str, Value] = local.items
    else:
        names = scope.items if isinstance(scope, Map) else frame.names
    machine.depth += 1
    try:
        machine.run_block(tree.body, Frame(module, names, parent=None if names is module.globals else frame))
    finally:
        machine.depth -= 1
    return NONE


WHOLE_FILE = "<file>"
"""Name of the origin of a string that is the whole text of a file."""


def eval_(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    code = text_of(args[0]) if args else None
    if code is None or len(code) > 2_000 or machine.caller is None:
        return unknown("eval", *args)
    tree = parse(code.strip())
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return machine.fail("SyntaxError", "eval")
    frame = machine.caller
    scope = args[1] if len(args) > 1 else None
    if isinstance(scope, Map):
        frame = Frame(frame.module, dict(scope.items), parent=frame)
    result = machine.eval(tree.body[0].value, frame)
    if (
        isinstance(result, Lit)
        and isinstance(args[0], Lit)
        and isinstance(tree.body[0].value, ast.Constant | ast.UnaryOp)
    ):
        return Lit(result.value, args[0].origin)
    return result


def literal_eval(machine: Machine, args: Args, kwargs: Kwargs, site: Site) -> Value:
    code = text_of(args[0]) if args else None
    if code is None or len(code) > 20_000:
        return unknown("literal_eval", *args)
    try:
        result = ast.literal_eval(code)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return machine.fail("ValueError", "literal_eval")
    return from_python(result, args[0].origin if isinstance(args[0], Lit) else None)


def from_python(value: Any, origin: Origin | None = None, depth: int = 0) -> Value:
    """Plain Python data as a value; every scalar gets ``origin``."""
    if depth > 40:
        return unknown("deep")
    if isinstance(value, dict):
        return Map({key: from_python(item, origin, depth + 1) for key, item in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        kind = type(value).__name__ if not isinstance(value, frozenset) else "set"
        return Seq([from_python(item, origin, depth + 1) for item in value], kind)
    if value is None or isinstance(value, str | int | float | bool | bytes | complex):
        return Lit(value, origin)
    return unknown(type(value).__name__)


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
