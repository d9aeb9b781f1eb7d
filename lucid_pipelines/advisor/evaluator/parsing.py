"""Source text to ``ast``; what ``ast`` refuses is mended with tree-sitter first."""

from __future__ import annotations

import ast
import gc
import re
import warnings
from functools import lru_cache

import tree_sitter_python
from tree_sitter import Language, Node, Parser

MAX_REPAIRS = 200
MAX_DEPTH = 180


def parse(text: str) -> ast.Module | None:
    """Parse Python source. Line numbers of the result are those of ``text``.

    Source for Python 2, notebook magics and broken files are mended: every statement that cannot be
    parsed is replaced by ``pass``, so that the rest can still be read. ``None`` when nothing helps.
    """
    tree = _try_ast(text)
    if tree is not None:
        return tree
    if _nesting(text) > MAX_DEPTH:
        return None
    mended = _mend(text)
    return None if mended is None else _try_ast(mended)


def _try_ast(text: str) -> ast.Module | None:
    # A tree is many small objects without a cycle: looking for cycles while it grows takes most of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    finally:
        if collects:
            gc.enable()


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


_MAGIC = re.compile(r"^(\s*)[%!].*$", re.MULTILINE)
_OLD_EXCEPT = re.compile(r"^(\s*except\s+[\w.() ,]+?)\s*,\s*(\w+)\s*:", re.MULTILINE)
_OLD_OCTAL = re.compile(r"(?<![\w.])0(\d+)(?![\w.])")
_OLD_STRING = re.compile(r"\bu[rR](?=['\"])")


def _mend(text: str) -> str | None:
    """Rewrite old syntax, then blank the statements that still do not parse."""
    text = _MAGIC.sub(r"\1pass", text)
    text = _OLD_EXCEPT.sub(r"\1 as \2:", text)
    text = _OLD_STRING.sub("r", text)
    lines = text.split("\n")
    data = text.encode("utf-8", errors="replace")
    for first, last in _old_statements(_parser().parse(data).root_node):
        _blank(lines, first, last)
    for _ in range(MAX_REPAIRS):
        error = _first_error("\n".join(lines))
        if error is None:
            return "\n".join(lines)
        line = min(max(error - 1, 0), len(lines) - 1)
        while line > 0 and lines[line].strip() in ("", "pass"):
            line -= 1
        if lines[line].strip() in ("", "pass"):
            return None
        mended = _OLD_OCTAL.sub(r"0o\1", lines[line])
        if mended != lines[line]:
            lines[line] = mended
        else:
            _blank(lines, line, line)
    return None


def _old_statements(root: Node) -> list[tuple[int, int]]:
    """Line ranges of Python 2 statements and of the smallest broken statements."""
    ranges: list[tuple[int, int]] = []
    todo = [root]
    seen = 0
    while todo and seen < 200_000:
        node = todo.pop()
        seen += 1
        if node.type in ("print_statement", "exec_statement") or node.type == "ERROR":
            ranges.append((node.start_point[0], node.end_point[0]))
        elif node.has_error or node.type in ("module", "block") or node.type.endswith(("definition", "statement")):
            todo.extend(node.children)
    return ranges


def _blank(lines: list[str], first: int, last: int) -> None:
    if last - first > 50:
        last = first
    indent = len(lines[first]) - len(lines[first].lstrip())
    opens_block = lines[last].rstrip().endswith(":")
    for number in range(first, last + 1):
        lines[number] = ""
    lines[first] = " " * indent + ("if True:" if opens_block else "pass")


def _first_error(text: str) -> int | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None
