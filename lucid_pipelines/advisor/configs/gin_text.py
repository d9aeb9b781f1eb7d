"""gin files: bindings, macros and includes."""

from __future__ import annotations

import ast
import posixpath
import re

from lucid_pipelines.advisor.evaluator.values import Lit, Map, Origin, Seq, Sym, Value
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

MAX_FILES = 20
MAX_LINES = 20_000
_INCLUDE = re.compile(r"""^include\s+["']([^"']+)["']""")
_BINDING = re.compile(r"^([A-Za-z_][\w./@]*)\s*=\s*(.*)$", re.DOTALL)


def parse_gin(tree: SourceTree, file: str) -> Map:
    """Bindings of a gin file and of the files that it includes, by full name; macros are followed."""
    bindings: dict[str, Value] = {}
    _read(tree, file, bindings, 0, set())
    return Map({name: _resolved(value, bindings, 0) for name, value in bindings.items()})


def parse_bindings(texts: list[Lit], bindings: dict[str, Value]) -> None:
    """``name=value`` texts of the command line over bindings of files."""
    for text in texts:
        match = _BINDING.match(str(text.value).strip())
        if match is not None:
            bindings[match.group(1)] = _value(match.group(2), text.origin)


def _read(tree: SourceTree, file: str, bindings: dict[str, Value], depth: int, seen: set[str]) -> None:
    text = tree.read_text(file)
    if text is None or depth > 8 or file in seen or len(seen) >= MAX_FILES:
        return
    seen.add(file)
    for number, statement in _statements(text):
        include = _INCLUDE.match(statement)
        if include is not None:
            for base in ("", posixpath.dirname(file)):
                path = tree.relative(include.group(1), base)
                if path is not None and tree.is_file(path):
                    _read(tree, path, bindings, depth + 1, seen)
                    break
            continue
        match = _BINDING.match(statement)
        if match is not None and not statement.startswith(("import ", "from ")):
            name = match.group(1)
            bindings[name] = _value(match.group(2), Origin(SourceKind.CONFIG, file, number, name.rpartition(".")[2]))


def _statements(text: str) -> list[tuple[int, str]]:
    """Logical lines with the number of their first line: brackets and backslashes join lines."""
    found: list[tuple[int, str]] = []
    current = ""
    start = 0
    depth = 0
    block = ""
    for number, raw in enumerate(text.split("\n")[:MAX_LINES], 1):
        line = re.sub(r"(?:^|\s)#.*$", "", raw)
        if not line.strip() and depth <= 0:
            continue
        if not current:
            start = number
            header = re.match(r"^([A-Za-z_][\w./@]*):\s*$", line)
            if header is not None:
                block = header.group(1)
                continue
            if line[:1] not in (" ", "\t"):
                block = ""
            elif block and "=" in line:
                line = f"{block}.{line.strip()}"
        current += line.rstrip("\\") + " "
        depth += sum(line.count(mark) for mark in "([{") - sum(line.count(mark) for mark in ")]}")
        if depth <= 0 and not line.endswith("\\"):
            found.append((start, current.strip()))
            current = ""
            depth = 0
    return found


def _value(text: str, origin: Origin | None) -> Value:
    text = text.strip()
    if text.startswith("%"):
        return Sym("%" + text[1:].strip())
    if text.startswith("@"):
        return Lit(text[1:].partition("(")[0], origin)
    try:
        plain = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return Sym("gin")
    return _plain(plain, origin)


def _plain(value: object, origin: Origin | None, depth: int = 0) -> Value:
    if isinstance(value, dict) and depth < 20:
        return Map({key: _plain(item, origin, depth + 1) for key, item in value.items()})
    if isinstance(value, list | tuple) and depth < 20:
        return Seq([_plain(item, origin, depth + 1) for item in value])
    return Lit(value if isinstance(value, str | int | float | bool) or value is None else str(value), origin)


def _resolved(value: Value, bindings: dict[str, Value], depth: int) -> Value:
    if isinstance(value, Sym) and value.path.startswith("%") and depth < 10:
        name = value.path[1:]
        target = bindings.get(name)
        if target is None:
            # Macros are also found by their last part: %module.NAME.
            target = next(
                (item for key, item in bindings.items() if key.rpartition("/")[2] == name.rpartition(".")[2]), None
            )
        return value if target is None else _resolved(target, bindings, depth + 1)
    return value
