"""Methods of strings, numbers, sequences and dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.operators import MAX_ITEMS, MAX_TEXT, derived, equal, safe_format
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Lit,
    Map,
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

Method = Callable[["Machine", Any, list[Value], dict[str, Value], Site], Value]


def method_of(machine: Machine, owner: Value, name: str) -> Native | None:
    """The bound method of a scalar, sequence or dictionary, or ``None`` when there is no such method."""
    if isinstance(owner, Map):
        method = MAP_METHODS.get(name) or (machine.library.map_methods.get(name) if owner.attributes else None)
    elif isinstance(owner, Seq):
        method = SEQUENCE_METHODS.get(name)
    elif isinstance(owner, Lit):
        method = _scalar_method(owner, name)
    else:
        method = None
    if method is None:
        return None
    bound = method
    return Native(name, lambda m, args, kwargs, site: bound(m, owner, args, kwargs, site))


# ---------------------------------------------------------------------- scalars

_TEXT_METHODS = frozenset(
    {
        "lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "startswith", "endswith", "replace",
        "title", "capitalize", "isdigit", "isnumeric", "isdecimal", "isalpha", "isalnum", "isupper", "islower",
        "find", "rfind", "index", "count", "partition", "rpartition", "splitlines", "removeprefix", "removesuffix",
        "casefold", "swapcase", "isspace", "isidentifier", "encode", "decode",
    }
)  # fmt: skip
_PADDED = frozenset({"zfill", "ljust", "rjust", "center"})
_NUMBER_METHODS = frozenset({"bit_length", "is_integer", "hex", "conjugate"})


def _scalar_method(owner: Lit, name: str) -> Method | None:
    if isinstance(owner.value, str | bytes):
        if name in _TEXT_METHODS or name in _PADDED:
            return lambda m, self, args, kwargs, site: _text_call(m, self, name, args, kwargs, site)
        return {"join": _join, "format": _format}.get(name)
    if isinstance(owner.value, int | float) and name in _NUMBER_METHODS:
        return lambda m, self, args, kwargs, site: derived(getattr(self.value, name)(), (self,), site)
    if isinstance(owner.value, int | float) and name == "item":
        return lambda m, self, args, kwargs, site: self
    return None


def _text_call(
    machine: Machine, self: Lit, name: str, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    values: list[Any] = []
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, Lit):
            values.append(arg.value)
        elif isinstance(arg, Seq) and all(isinstance(item, Lit) for item in arg.items):
            values.append(tuple(item.value for item in arg.items if isinstance(item, Lit)))
        else:
            return unknown(f"str.{name}", self, arg)
    if name in _PADDED and values and isinstance(values[0], int) and values[0] > 1_000:
        return unknown("too large")
    if name == "replace" and isinstance(self.value, str) and len(values) >= 2:
        grown = len(self.value) * max(1, len(str(values[1])))
        if grown > MAX_TEXT:
            return unknown("too large")
    plain = values[: len(args)]
    named = dict(zip(kwargs, values[len(args) :], strict=True))
    try:
        result = getattr(self.value, name)(*plain, **named)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        return machine.fail(type(error).__name__, str(error))
    return _wrap(result, self, site)


def _wrap(result: Any, source: Lit, site: Site) -> Value:
    """A result of a string method; pieces of a string keep its place."""
    if isinstance(result, list | tuple):
        kind = "list" if isinstance(result, list) else "tuple"
        return Seq([Lit(item, source.origin) for item in result[:MAX_ITEMS]], kind)
    if isinstance(result, str | bytes):
        return Lit(result, source.origin)
    return derived(result, (source,), site)


def _join(machine: Machine, self: Lit, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    items = items_of(machine, args[0]) if args else None
    if items is None or not all(isinstance(item, Lit) and isinstance(item.value, str) for item in items):
        return unknown("join")
    known = [item for item in items if isinstance(item, Lit)]
    text = str(self.value).join(str(item.value) for item in known)
    return derived(text, tuple(known[:8]), site) if len(text) <= MAX_TEXT else unknown("too large")


def _format(machine: Machine, self: Lit, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    from_args = [_shown(arg) for arg in args]
    named = {key: _shown(value) for key, value in kwargs.items()}
    template = str(self.value)
    # Fields such as {0.attribute} could reach into Python objects: only plain fields are formatted.
    if ".__" in template or "[" in template or not safe_format(template):
        return unknown("format")
    if any(value is _UNSHOWN for value in (*from_args, *named.values())):
        return unknown("format", self, *args, *kwargs.values())
    try:
        text = template.format(*from_args, **named)
    except (LookupError, ValueError, AttributeError, TypeError):
        return unknown("format")
    inputs = tuple(arg for arg in (*args, *kwargs.values()) if isinstance(arg, Lit))
    return derived(text, inputs, site) if len(text) <= MAX_TEXT else unknown("too large")


_UNSHOWN: Any = object()


def _shown(value: Value) -> Any:
    return value.value if isinstance(value, Lit) else _UNSHOWN


# ---------------------------------------------------------------------- sequences


def _append(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and len(self.items) < MAX_ITEMS:
        machine.touch(self)
        self.items.append(args[0])
    return NONE


def _extend(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    machine.touch(self)
    for arg in args:
        items = items_of(machine, arg)
        if items is None:
            self.open = True
        elif len(self.items) + len(items) < MAX_ITEMS:
            machine.spend(len(items))
            self.items.extend(items)
    return NONE


def _insert(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) == 2 and isinstance(args[0], Lit) and isinstance(args[0].value, int):
        machine.touch(self)
        self.items.insert(args[0].value, args[1])
    return NONE


def _pop(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    position = args[0].value if args and isinstance(args[0], Lit) else -1
    if not isinstance(position, int) or not -len(self.items) <= position < len(self.items):
        return unknown("pop") if self.open else machine.fail("IndexError", "pop")
    machine.touch(self)
    return self.items.pop(position)


def _remove(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    for position, item in enumerate(self.items):
        if args and equal(item, args[0]) is True:
            machine.touch(self)
            del self.items[position]
            break
    return NONE


def _add(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and not any(equal(item, args[0]) is True for item in self.items) and len(self.items) < MAX_ITEMS:
        machine.touch(self)
        self.items.append(args[0])
    return NONE


def _index(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    for position, item in enumerate(self.items):
        answer = equal(item, args[0]) if args else None
        if answer is None:
            return unknown("index")
        if answer:
            return Lit(position)
    return machine.fail("ValueError", "index")


def _count(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    answers = [equal(item, args[0]) if args else None for item in self.items]
    return unknown("count") if None in answers else Lit(sum(answer is True for answer in answers))


def _copy_sequence(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Seq(list(self.items), self.kind, open=self.open)


def _clear_sequence(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    machine.touch(self)
    self.items.clear()
    return NONE


def _reverse(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    machine.touch(self)
    self.items.reverse()
    return NONE


def _sort(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    ordered = sorted_items(self.items)
    if ordered is not None and not kwargs:
        machine.touch(self)
        self.items[:] = ordered
    return NONE


def sorted_items(items: list[Value]) -> list[Value] | None:
    """The items in order when all are comparable scalars, else ``None``."""
    known = [item for item in items if isinstance(item, Lit)]
    if len(known) != len(items):
        return None
    try:
        return sorted(known, key=lambda item: item.value)  # type: ignore[arg-type,return-value]
    except TypeError:
        return None


def _union(machine: Machine, self: Seq, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    result = Seq(list(self.items), "set", open=self.open)
    for arg in args:
        for item in items_of(machine, arg) or []:
            _add(machine, result, [item], {}, site)
    return result


SEQUENCE_METHODS: dict[str, Method] = {
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "popleft": lambda m, self, args, kwargs, site: _pop(m, self, [Lit(0)], kwargs, site),
    "remove": _remove,
    "discard": _remove,
    "add": _add,
    "index": _index,
    "count": _count,
    "copy": _copy_sequence,
    "clear": _clear_sequence,
    "reverse": _reverse,
    "sort": _sort,
    "union": _union,
    "update": _extend,
    "__contains__": lambda m, self, args, kwargs, site: _member(self, args),
}


def _member(self: Seq, args: list[Value]) -> Value:
    answers = [equal(item, args[0]) for item in self.items] if args else [None]
    return Lit(True) if True in answers else (unknown("in") if None in answers else Lit(False))


# ---------------------------------------------------------------------- dictionaries


def _get(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    key = args[0] if args else None
    default = args[1] if len(args) > 1 else kwargs.get("default", NONE)
    if not isinstance(key, Lit):
        return unknown("get", *args)
    if key.value in self.items:
        return machine.settle(self.items, key.value)
    return Sym(f"{self.label or 'map'}.get({key.value!r})"[:240]) if self.open else default


def _pop_key(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    key = args[0] if args else None
    if isinstance(key, Lit) and key.value in self.items:
        if machine.journal is not None:
            machine.journal.note(self.items, key.value)
        return self.items.pop(key.value)
    if len(args) > 1:
        return args[1]
    return unknown("pop") if self.open or not isinstance(key, Lit) else machine.fail("KeyError", "pop")


def _setdefault(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    key = args[0] if args else None
    if not isinstance(key, Lit):
        return unknown("setdefault")
    if key.value not in self.items:
        machine.put(self.items, key.value, args[1] if len(args) > 1 else NONE)
    return self.items[key.value]


def _update(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    machine.spend(sum(len(getattr(arg, "items", ())) for arg in args if isinstance(arg, Map | Seq)))
    for arg in args:
        source = arg.payload if isinstance(arg, Obj) and arg.payload is not None else arg
        if isinstance(source, Map):
            for key, value in list(source.items.items()):
                machine.put(self.items, key, value)
            self.open |= source.open
        elif isinstance(source, Seq):
            for pair in source.items:
                if isinstance(pair, Seq) and len(pair.items) == 2 and isinstance(pair.items[0], Lit):
                    machine.put(self.items, pair.items[0].value, pair.items[1])
        elif not (isinstance(source, Lit) and source.value is None):
            self.open = True
    for key, value in kwargs.items():
        machine.put(self.items, key, value)
    return NONE


def _items(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    pairs: list[Value] = [Seq([_key_value(key), value], "tuple") for key, value in list(self.items.items())[:MAX_ITEMS]]
    return Seq(pairs, open=self.open)


def _keys(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Seq([_key_value(key) for key in list(self.items)[:MAX_ITEMS]], open=self.open)


def _values(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Seq(list(self.items.values())[:MAX_ITEMS], open=self.open)


def _key_value(key: Any) -> Value:
    if isinstance(key, tuple):
        return Seq([Lit(part) for part in key], "tuple") if key[:1] not in (("symbol",), ("object",)) else Sym("key")
    return Lit(key)


def _copy_map(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    machine.spend(len(self.items))
    twin = Map(dict(self.items), attributes=self.attributes, open=self.open, label=self.label)
    twin.factory = self.factory
    return twin


def _clear_map(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    for key in list(self.items):
        if machine.journal is not None:
            machine.journal.note(self.items, key)
        del self.items[key]
    return NONE


def _contains_key(machine: Machine, self: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args or not isinstance(args[0], Lit):
        return unknown("in")
    if args[0].value in self.items:
        return Lit(True)
    return unknown("in") if self.open else Lit(False)


def _fixed(result: Value) -> Method:
    return lambda machine, self, args, kwargs, site: result


MAP_METHODS: dict[str, Method] = {
    "get": _get,
    "pop": _pop_key,
    "setdefault": _setdefault,
    "update": _update,
    "items": _items,
    "iteritems": _items,
    "keys": _keys,
    "values": _values,
    "copy": _copy_map,
    "copy_and_resolve_references": _copy_map,
    "to_dict": _copy_map,
    "todict": _copy_map,
    "toDict": _copy_map,
    "clear": _clear_map,
    "__contains__": _contains_key,
    "__getitem__": _get,
    "freeze": _fixed(NONE),
    "defrost": _fixed(NONE),
    "lock": _fixed(NONE),
    "unlock": _fixed(NONE),
}
