"""Literal texts without which a pattern cannot match: a cheap test before a costly one."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MIN_CHARS = 3
_ALL_DIGITS = re.compile(r"(?<!-)0-9")
_REPEATED = re.compile(r"\{\d*,?\d*\}")
_BY_CODE = ("x", "u", "U", "N")
_ESCAPED_LITERALS = frozenset(r".^$*+?{}[]\|()-/'\"#&~`:=<>@%!, ")


def branches(pattern: str) -> list[tuple[str, tuple[str, ...] | None]]:
    """The top-level alternatives of a pattern, each with the literals that it needs.

    A text matches the pattern when it matches one of them.
    """
    return [(branch, needed_literals(branch)) for branch in _branches(pattern)]


def needed_literals(pattern: str) -> tuple[str, ...] | None:
    """Lower-case texts of which every match of ``pattern`` contains at least one.

    Each top-level alternative gives its longest plain run of characters; ``None`` when some alternative has
    no run of three (then the pattern must always be tried).

    Args:
        pattern: a regular expression that is compiled with IGNORECASE.
    """
    found: list[str] = []
    for branch in _branches(pattern):
        literal = max(_runs(branch), key=len, default="")
        if len(literal) >= _MIN_CHARS:
            found.append(literal.lower())
            continue
        nested = next((n for inner in _groups(branch) if (n := needed_literals(inner)) is not None), None)
        if nested is None:
            return None
        found.extend(nested)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class DigitBlind:
    """What a pattern says of texts whose digits were all made zeros.

    Attributes:
        pattern: found in such a text wherever the pattern itself is found in the text with its true digits;
            ``None`` where that cannot be told.
        is_exact: no digit is told from another (none is written out, classes name all or none): the two say the same.
    """

    pattern: str | None
    is_exact: bool


def blind_to_digits(pattern: str) -> DigitBlind:
    """A pattern with all digits taken for zeros."""
    done, is_exact, i = "", True, 0
    while i < len(pattern):
        char, end = pattern[i], i + 1
        if char == "\\":
            end = i + 2
            if pattern[i + 1 : end].isdigit() or pattern[i + 1 : end] in _BY_CODE:
                return DigitBlind(None, is_exact=False)
        elif pattern.startswith(("(?P=", "(?("), i):
            return DigitBlind(None, is_exact=False)
        elif pattern.startswith("(?P<", i):
            end = pattern.find(">", i) + 1
        elif char == "[":
            end = _class_end(pattern, i)
        elif char == "{" and _REPEATED.match(pattern, i):
            end = pattern.find("}", i) + 1
        piece = pattern[i:end]
        if char.isdigit() or (char == "[" and _tells_digits(piece)):
            is_exact = False
            # Which digits a denied class lets through is not worth working out.
            if piece.startswith("[^"):
                return DigitBlind(None, is_exact=False)
            piece = "0" if char.isdigit() else f"[0{piece[1:]}"
        done += piece
        i = end
    if not is_exact and ("(?!" in pattern or "(?<!" in pattern):
        return DigitBlind(None, is_exact=False)
    return DigitBlind(done, is_exact)


def _tells_digits(piece: str) -> bool:
    is_coded = any("\\" + code in piece for code in _BY_CODE)
    return is_coded or any(c.isdigit() for c in _ALL_DIGITS.sub("", piece))


def _branches(pattern: str) -> list[str]:
    """Split at the alternation bars that stand outside groups and classes."""
    parts, start, depth, i = [], 0, 0, 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            i += 2
            continue
        if char == "[":
            i = _class_end(pattern, i)
            continue
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "|" and depth == 0:
            parts.append(pattern[start:i])
            start = i + 1
        i += 1
    parts.append(pattern[start:])
    return parts


def _runs(branch: str) -> list[str]:
    """Plain runs outside groups and classes; a character that may be absent is in none."""
    runs, current, i = [], "", 0
    while i < len(branch):
        char = branch[i]
        if char in "([":
            runs.append(current)
            current = ""
            i = _group_end(branch, i) if char == "(" else _class_end(branch, i)
            continue
        if char in "?*{+":
            if char != "+" and current:
                current = current[:-1]
            runs.append(current)
            current = ""
            i = branch.find("}", i) + 1 if char == "{" else i + 1
            continue
        if char == "\\":
            following = branch[i + 1 : i + 2]
            if following in _ESCAPED_LITERALS:
                current += following
            else:
                runs.append(current)
                current = ""
            i += 2
            continue
        if char in ".^$":
            runs.append(current)
            current = ""
        else:
            current += char
        i += 1
    runs.append(current)
    return runs


def _groups(branch: str) -> list[str]:
    """The insides of the mandatory plain groups of ``branch``: what any of them needs, the branch needs."""
    found, i = [], 0
    while i < len(branch):
        char = branch[i]
        if char == "\\":
            i += 2
        elif char == "[":
            i = _class_end(branch, i)
        elif char == "(":
            end = _group_end(branch, i)
            inside = branch[i + 1 : end - 1].removeprefix("?:")
            if branch[end : end + 1] not in ("?", "*", "{") and not inside.startswith("?"):
                found.append(inside)
            i = end
        else:
            i += 1
    return found


def _group_end(text: str, start: int) -> int:
    depth, i = 0, start
    while i < len(text):
        char = text[i]
        if char == "\\":
            i += 2
            continue
        if char == "[":
            i = _class_end(text, i)
            continue
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return len(text)


def _class_end(text: str, start: int) -> int:
    i = start + 1
    if text[i : i + 1] == "^":
        i += 1
    if text[i : i + 1] == "]":
        i += 1
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        if text[i] == "]":
            return i + 1
        i += 1
    return len(text)
