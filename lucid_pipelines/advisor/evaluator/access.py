"""Attributes and items: reading and writing them on every kind of value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.methods import method_of
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Func,
    Lazy,
    Lit,
    Map,
    Mod,
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


def get_attribute(machine: Machine, owner: Value, name: str, site: Site, strict: bool = False) -> Value:
    """``owner.name``. A missing attribute is unknown, unless the program would notice (``strict``)."""
    if isinstance(owner, Sym) and (method := _symbol_method(owner, name)) is not None:
        return method
    if isinstance(owner, Sym):
        return machine.library_name(f"{owner.path}.{name}", site) if owner.path[:1] != "<" else unknown(name, owner)
    found = _find_attribute(machine, owner, name, site)
    if found is not None:
        return found
    if isinstance(owner, Obj) and (owner.opaque or owner.cls.library_bases()):
        if name in _RETURN_SELF:
            return Native(name, lambda m, args, kwargs, at: owner)
        if name == "module" and "module" not in owner.attrs:
            # What wraps a network for several devices keeps it under this name.
            return owner
        return Sym(f"{owner.cls.name}().{name}")
    if isinstance(owner, Map) and owner.open:
        return Sym(f"{owner.label or 'map'}.{name}")
    if isinstance(owner, Mod) and owner.state == "running":
        return Sym(f"{owner.name}.{name}")
    if strict:
        return _raise(machine, name)
    return machine.fail("AttributeError", name)


_RETURN_SELF = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "half", "float", "bfloat16", "double", "requires_grad_", "apply", "compile"}
    | {"to_device", "share_memory", "xpu", "npu"}
)
"""Methods of networks that give the network back."""


def _raise(machine: Machine, name: str) -> Value:
    machine.handlers.append(("AttributeError",))
    try:
        return machine.fail("AttributeError", name)
    finally:
        machine.handlers.pop()


def _symbol_method(owner: Sym, name: str) -> Native | None:
    """Text methods of an unknown text: the result still shows the text's known parts."""
    if owner.path in ("format", "f-string", "%", "+") and name in ("split", "strip", "format", "lower", "replace"):
        return Native(name, lambda m, args, kwargs, at: Sym("format", [owner, *args], tags=owner.tags))
    return None


def _find_attribute(machine: Machine, owner: Value, name: str, site: Site) -> Value | None:
    if isinstance(owner, Obj):
        return _of_instance(machine, owner, name, site)
    if isinstance(owner, Map):
        if name == "__dict__":
            return owner
        if owner.attributes and name in owner.items:
            return machine.settle(owner.items, name)
        return method_of(machine, owner, name)
    if isinstance(owner, Mod):
        return _of_module(machine, owner, name)
    if isinstance(owner, Cls):
        return _of_class(machine, owner, name)
    if isinstance(owner, Model):
        return owner.get(machine, name, site)
    if isinstance(owner, Lit | Seq):
        return method_of(machine, owner, name)
    if isinstance(owner, Func):
        return _of_function(owner, name)
    if isinstance(owner, Native):
        return Lit(owner.name) if name in ("__name__", "__qualname__") else Sym(f"{owner.name}.{name}")
    return None


def _of_instance(machine: Machine, owner: Obj, name: str, site: Site) -> Value | None:
    if name in owner.attrs:
        return machine.settle(owner.attrs, name)
    if name == "__dict__":
        return Map(owner.attrs)
    if name == "__class__":
        return owner.cls
    found = owner.cls.find(name)
    if found is not None:
        if isinstance(found, Lazy):
            found = machine.resolve_import(found)
        return _bound(machine, found, owner, site)
    if owner.payload is not None:
        method = method_of(machine, owner.payload, name)
        if method is not None:
            return method
    fallback = owner.cls.find("__getattr__")
    if isinstance(fallback, Func) and not name.startswith("__"):
        return machine.call(fallback.bind(owner), [Lit(name)], {}, site)
    return None


def _bound(machine: Machine, found: Value, owner: Value, site: Site) -> Value:
    if not isinstance(found, Func):
        return found
    if found.role == "property":
        return machine.call(found.bind(owner), [], {}, site)
    if found.role == "static":
        return found
    if found.role == "class":
        return found.bind(owner.cls if isinstance(owner, Obj) else owner)
    return found.bind(owner)


def _of_class(machine: Machine, owner: Cls, name: str) -> Value | None:
    found = owner.find(name)
    if found is not None:
        if isinstance(found, Lazy):
            return machine.resolve_import(found)
        if isinstance(found, Func) and found.role == "class":
            return found.bind(owner)
        return found
    if name in ("__name__", "__qualname__"):
        return Lit(owner.name)
    if name == "__dict__":
        return Map(owner.attrs)
    if name == "__annotations__":
        return Map({field: Sym("annotation") for field in owner.fields})
    if name == "__members__" and owner.decorated == "enum":
        return Map({key: value for key, value in owner.attrs.items() if isinstance(value, Obj)})
    for base in owner.library_bases():
        return Sym(f"{base}.{name}")
    return None


def _of_module(machine: Machine, owner: Mod, name: str) -> Value | None:
    inner = machine.modules.find(f"{owner.name}.{name}") if owner.state == "new" else None
    if inner is not None and name not in owner.globals:
        return inner
    machine.run_module(owner)
    if name in owner.globals:
        return machine.settle(owner.globals, name)
    if name == "__dict__":
        return Map(owner.globals, open=True)
    inner = machine.modules.find(f"{owner.name}.{name}")
    if inner is not None:
        return inner
    if "*" in owner.globals:
        return machine.star_name(owner, name)
    return Lit(owner.name) if name == "__name__" else None


def _of_function(owner: Func, name: str) -> Value | None:
    if name in owner.extra:
        kept = owner.extra[name]
        return kept if isinstance(kept, Value) else None
    if name in ("__name__", "__qualname__"):
        return Lit(owner.name)
    if name == "__wrapped__" or name == "__func__":
        return owner
    return NONE if name == "__doc__" else Sym(f"{owner.name}.{name}")


def set_attribute(machine: Machine, owner: Value, name: str, value: Value, site: Site) -> None:
    """``owner.name = value``."""
    if isinstance(owner, Obj):
        setter = owner.cls.find("__setattr__")
        if isinstance(setter, Func):
            machine.call(setter.bind(owner), [Lit(name), value], {}, site)
            if name not in owner.attrs and owner.payload is None:
                machine.put(owner.attrs, name, value)
            return
        found = owner.cls.find(f"{name}.setter")
        if isinstance(found, Func):
            machine.call(found.bind(owner), [value], {}, site)
            return
        if name == "__dict__":
            _adopt_dictionary(owner, value)
            return
        machine.put(owner.attrs, name, value)
    elif isinstance(owner, Map):
        machine.put(owner.items, name, value)
    elif isinstance(owner, Cls):
        machine.put(owner.attrs, name, value)
    elif isinstance(owner, Mod):
        machine.run_module(owner)
        machine.put(owner.globals, name, value)
    elif isinstance(owner, Func):
        owner.extra[name] = value
    elif isinstance(owner, Model):
        owner.set(machine, name, value)


def _adopt_dictionary(owner: Obj, value: Value) -> None:
    """``self.__dict__ = …``: the usual trick for dictionaries with attributes."""
    if value is owner and isinstance(owner.payload, Map):
        owner.attrs = owner.payload.items
    elif isinstance(value, Map):
        owner.attrs = value.items


def get_item(machine: Machine, owner: Value, key: Value, site: Site) -> Value:
    """``owner[key]``."""
    if isinstance(owner, Obj):
        method = owner.cls.find("__getitem__") or owner.cls.find("__class_getitem__")
        if isinstance(method, Func):
            return machine.call(method.bind(owner), [key], {}, site)
        if owner.payload is None:
            return unknown("item", owner)
        owner = owner.payload
    if isinstance(owner, Map):
        return _map_item(machine, owner, key, site)
    if isinstance(owner, Seq):
        return _sequence_item(machine, owner, key)
    if isinstance(owner, Lit) and isinstance(owner.value, str | bytes) and isinstance(key, Lit):
        if isinstance(key.value, int) and -len(owner.value) <= key.value < len(owner.value):
            return Lit(owner.value[key.value], owner.origin)
        return machine.fail("IndexError", "text")
    if isinstance(owner, Model):
        found = owner.item(machine, key, site)
        return unknown("item", owner) if found is None else found
    if isinstance(owner, Cls):
        if owner.decorated == "enum" and isinstance(key, Lit):
            return owner.attrs.get(str(key.value)) or unknown("member")
        return owner
    if isinstance(owner, Sym) and isinstance(key, Lit) and owner.path.endswith(".__dict__"):
        return machine.library_name(f"{owner.path.removesuffix('.__dict__')}.{key.value}", site)
    if isinstance(owner, Sym) and isinstance(key, Lit) and not owner.args:
        return Sym(f"{owner.path}[{key.value!r}]"[:240], tags=owner.tags)
    return unknown("item", owner, key)


def _map_item(machine: Machine, owner: Map, key: Value, site: Site) -> Value:
    stand_in = _key(key)
    if stand_in is _NO_KEY:
        if owner.items and not owner.open and len(owner.items) <= 8 and isinstance(key, Sym):
            return Sym("either", list(owner.items.values()), tags=frozenset({"either"}))
        return unknown("item", key)
    if stand_in in owner.items:
        return machine.settle(owner.items, stand_in)
    if owner.factory is not None:
        made = machine.call(owner.factory, [], {}, site)
        machine.put(owner.items, stand_in, made)
        return made
    if owner.open:
        return Sym(f"{owner.label or 'map'}[{stand_in!r}]"[:240])
    return machine.fail("KeyError", str(stand_in))


def _sequence_item(machine: Machine, owner: Seq, key: Value) -> Value:
    if isinstance(key, Lit) and isinstance(key.value, int):
        if -len(owner.items) <= key.value < len(owner.items) and owner.kind != "set":
            return owner.items[key.value]
        return unknown("item") if owner.open else machine.fail("IndexError", "sequence")
    return unknown("item", key)


_NO_KEY: Any = object()


def _key(key: Value) -> Any:
    if isinstance(key, Lit):
        return key.value
    if isinstance(key, Seq) and all(isinstance(item, Lit) for item in key.items):
        return tuple(item.value for item in key.items if isinstance(item, Lit))
    if isinstance(key, Sym):
        return _NO_KEY if "()" in key.path or key.args else ("symbol", key.path)
    return _NO_KEY if isinstance(key, Map | Seq) else ("object", id(key))


def set_item(machine: Machine, owner: Value, key: Value, value: Value, site: Site) -> None:
    """``owner[key] = value``."""
    if isinstance(owner, Obj):
        method = owner.cls.find("__setitem__")
        if isinstance(method, Func):
            machine.call(method.bind(owner), [key, value], {}, site)
            return
        if owner.payload is None:
            return
        owner = owner.payload
    if isinstance(owner, Map):
        stand_in = _key(key)
        if stand_in is _NO_KEY:
            owner.open = True
        else:
            machine.put(owner.items, stand_in, value)
    elif isinstance(owner, Seq) and isinstance(key, Lit) and isinstance(key.value, int):
        if -len(owner.items) <= key.value < len(owner.items):
            machine.touch(owner)
            owner.items[key.value] = value
    elif isinstance(owner, Model):
        owner.set_item(machine, key, value)
