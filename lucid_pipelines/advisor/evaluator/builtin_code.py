"""Models of the builtins that run or read code in strings: ``exec``, ``eval`` and ``literal_eval``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.parsing import parse
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Frame,
    Lit,
    Map,
    Mod,
    Origin,
    Seq,
    Site,
    Value,
    text_of,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


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
