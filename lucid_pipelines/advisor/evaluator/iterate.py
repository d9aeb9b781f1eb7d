"""The items that iterating over a value gives, when they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.values import Cls, Lit, Map, Model, Obj, Seq, Site, Sym, Value

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

UNROLL_LIMIT = 256
MAX_RANGE = 2_000


def items_of(machine: Machine, value: Value) -> list[Value] | None:
    """The items of an iterable, or ``None`` when they are not known.

    A long ``range`` is not expanded.
    """
    if isinstance(value, Seq):
        return None if value.open and not value.items else list(value.items)
    if isinstance(value, Map):
        if value.open and not value.items:
            return None
        return [Lit(key) if not isinstance(key, tuple) else _from_key(key) for key in value.items]
    if isinstance(value, Lit) and isinstance(value.value, str):
        return [Lit(character, value.origin) for character in value.value[:MAX_RANGE]]
    if isinstance(value, Obj):
        if value.payload is not None:
            return items_of(machine, value.payload)
        method = value.cls.find("__iter__")
        if method is not None:
            produced = machine.call(machine.attribute(value, "__iter__", _nowhere()), [], {}, _nowhere())
            return items_of(machine, produced) if not isinstance(produced, Obj) else None
        return None
    if isinstance(value, Cls) and value.decorated == "enum":
        return [member for member in value.attrs.values() if isinstance(member, Obj)]
    if isinstance(value, Model):
        return value.iterate(machine)
    return range_items(value)


def range_items(value: Value) -> list[Value] | None:
    """The numbers of a short ``range`` with known bounds."""
    bounds = range_bounds(value)
    if bounds is None:
        return None
    numbers = range(*bounds)
    return [Lit(number) for number in numbers] if len(numbers) <= MAX_RANGE else None


def range_bounds(value: Value) -> tuple[int, int, int] | None:
    """``(start, stop, step)`` of a ``range`` with known bounds."""
    if not isinstance(value, Sym) or value.path != "range":
        return None
    numbers = [arg.value for arg in value.args if isinstance(arg, Lit) and isinstance(arg.value, int)]
    if len(numbers) != len(value.args) or not 1 <= len(numbers) <= 3:
        return None
    start, stop, step = {1: (0, numbers[0], 1), 2: (*numbers, 1), 3: tuple(numbers)}[len(numbers)]
    return None if step == 0 else (start, stop, step)


def _from_key(key: tuple[object, ...]) -> Value:
    return Seq([Lit(part) if isinstance(part, str | int | float | bool) else Sym("key") for part in key], "tuple")


def _nowhere() -> Site:
    return Site("<evaluator>", 0)
