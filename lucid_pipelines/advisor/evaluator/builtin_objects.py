"""Models of the builtins that ask for attributes, types and scopes of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.access import set_attribute
from lucid_pipelines.advisor.evaluator.branches import either
from lucid_pipelines.advisor.evaluator.classes import fill_fields, fill_payload
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.machine import RaisedError
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    TRUE,
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
    text_of,
    unknown,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


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
