"""Containers of settings as flat lists of scalars with dotted names."""

from __future__ import annotations

from collections.abc import Iterator

from lucid_pipelines.advisor.evaluator.values import Lit, Map, Obj, Seq, Value

MAX_SCALARS = 3_000
MAX_DEPTH = 8
MAX_SEQUENCE = 40


def scalars(container: Value, prefix: str = "") -> Iterator[tuple[str, Lit]]:
    """Every known scalar inside ``container`` with its dotted path, bounded in number and depth.

    Items of sequences are numbered: ``datasets.0.path``.
    """
    todo: list[tuple[str, Value, int]] = [(prefix, container, 0)]
    given = visited = 0
    while todo and given < MAX_SCALARS and visited < 4 * MAX_SCALARS:
        path, value, depth = todo.pop()
        visited += 1
        if isinstance(value, Lit):
            given += 1
            yield path, value
        elif depth < MAX_DEPTH:
            inside = list(_children(value))
            todo.extend((f"{path}.{name}" if path else name, child, depth + 1) for name, child in reversed(inside))


def _children(value: Value) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Obj):
        if isinstance(value.payload, Map):
            yield from _children(value.payload)
        if not isinstance(value.payload, Map) or value.attrs is not value.payload.items:
            yield from ((name, child) for name, child in value.attrs.items() if not name.startswith("__"))
    elif isinstance(value, Map):
        for key, child in value.items.items():
            if isinstance(key, str | int) and not str(key).startswith("__"):
                yield str(key), child
    elif isinstance(value, Seq):
        for number, child in enumerate(value.items[:MAX_SEQUENCE]):
            yield str(number), child
