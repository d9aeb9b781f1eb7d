"""How the program combines scalars: products and quotients inside computed values."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from lucid_pipelines.advisor.evaluator.trace import Trace
from lucid_pipelines.advisor.evaluator.values import Lit, Sym, Value
from lucid_pipelines.advisor.fields.choice import root_names
from lucid_pipelines.advisor.metadata import SourceKind

WORLD_NAMES = frozenset(
    {
        "world_size", "ngpus", "num_gpus", "n_gpus", "gpus", "nproc_per_node", "num_processes", "ngpus_per_node",
            "n_gpu",
        "gpus_per_node", "num_replicas", "ddp_world_size", "num_processes_per_node", "nnodes", "ntasks", "np",
            "num_nodes", "dp_size",
        "data_parallel_size", "devices", "dp_world_size", "num_devices",
    }
)  # fmt: skip


def operations(value: Value) -> Iterator[tuple[str, Value, Value]]:
    """Every binary operation that a computed value rests on: operator, left and right operand."""
    todo: list[Value] = [value]
    seen: set[int] = set()
    while todo and len(seen) < 200:
        current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Lit) and current.origin is not None:
            node, inputs = current.origin.node, current.origin.inputs
            if isinstance(node, ast.BinOp) and len(inputs) == 2:
                yield _SYMBOLS.get(type(node.op), "?"), inputs[0], inputs[1]
            todo.extend(inputs)
        elif isinstance(current, Sym):
            if len(current.args) == 2 and current.path in ("*", "/", "//"):
                yield current.path, current.args[0], current.args[1]
            todo.extend(current.args)


_SYMBOLS: dict[type[ast.operator], str] = {ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"}


def is_world(value: Value) -> bool:
    """Whether a value is the number of processes or devices, or a product of such numbers."""
    if isinstance(value, Sym):
        return bool(value.tags & {"world_size", "gpu_count"})
    if isinstance(value, Lit) and value.origin is not None and value.origin.kind is SourceKind.LAUNCHER:
        return True
    return bool(root_names(value) & WORLD_NAMES)


def computed_values(trace: Trace) -> Iterator[Value]:
    """Computed scalars and unknown values that the program kept under a name or passed on."""
    for assigned in trace.assignments.values():
        for each in assigned:
            if each.value.origin is not None and each.value.origin.inputs:
                yield each.value
    for symbols in trace.symbols.values():
        yield from symbols
    for event in trace.settings:
        items = getattr(event.container, "items", None)
        if isinstance(items, dict):
            for value in items.values():
                if (isinstance(value, Lit) and value.origin is not None and value.origin.inputs) or (
                    isinstance(value, Sym) and value.tags
                ):
                    yield value


def combined_with_world(trace: Trace, names: Iterable[str]) -> tuple[bool, bool]:
    """Whether a setting with one of these names is multiplied, and whether it is divided, by the world."""
    wanted = set(names)
    multiplied = divided = False
    for value in computed_values(trace):
        for symbol, left, right in operations(value):
            if symbol == "*":
                for one, other in ((left, right), (right, left)):
                    if root_names(one) & wanted and is_world(other) and not is_world(one):
                        multiplied = True
            elif symbol in ("/", "//") and root_names(left) & wanted and is_world(right):
                divided = divided or not is_world(left)
    return multiplied, divided
