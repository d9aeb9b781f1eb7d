"""What a terminal would have shown: redraws, backspaces, colours and stray control bytes undone (R-10)."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI: colours, cursor moves, erasures
    r"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b\n]{0,4096}(?:\x1b\\)?"  # DCS and its kin
    r"|\x1b[@-Z\\-_]?|\x9b([0-?]*)[ -/]*([@-~])"
)
_REDRAW_CODES = frozenset("ABEFGHJfd")
"""CSI codes that move the cursor to another place: what follows is a new state of the display."""
_REDRAW_BACKSPACES = 8
"""So many backspaces at once do not correct a character: a bar draws itself anew."""
_CONTROL = re.compile(r"[\x00-\x07\x0e-\x1f\x7f\ufeff]")
_NOT_PLAIN = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2\x9b|\xef\xbb\xbf")


def frames(data: bytes) -> list[str]:
    """The successive non-empty states that one physical line showed, oldest first.

    A carriage return, a cursor move or a run of backspaces that erases everything begins a new state;
    fewer backspaces take characters away. Undecodable bytes become U+FFFD. A plain line is one state.

    Args:
        data: the line without its newline.
    """
    if not _NOT_PLAIN.search(data):
        text = data.decode("utf-8", "replace")
        return [text] if text and not text.isspace() else []
    text = data.decode("utf-8", "replace")
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub(_redraw_or_nothing, text)
    shown: list[str] = []
    for part in text.split("\r"):
        shown.extend(_erase(part) if "\b" in part else (part,))
    cleaned = (_clean(part) for part in shown)
    return [part for part in cleaned if part and not part.isspace()]


def last_frame(data: bytes) -> str:
    """The state that remained on the screen, or an empty string."""
    shown = frames(data)
    return shown[-1] if shown else ""


def count_undecodable(data: bytes) -> int:
    """How many replacement characters decoding ``data`` would make (R-11)."""
    if data.isascii():
        return 0
    return data.decode("utf-8", "replace").count("\ufffd") - data.count(b"\xef\xbf\xbd")


def _redraw_or_nothing(match: re.Match[str]) -> str:
    code = match.group(2) or match.group(4)
    if not code:
        return ""
    arguments = match.group(1) or match.group(3) or ""
    if code in _REDRAW_CODES:
        return "\r"
    if code == "K" and arguments in ("1", "2"):
        return "\r"
    return " " * min(int(arguments[:3]), 80) if code == "C" and arguments.isdigit() else ""


def _erase(part: str) -> list[str]:
    """States of a part with backspaces; a long run of them ends a state, a short one corrects it in place."""
    states: list[str] = []
    shown, written = "", False
    for piece in re.split(r"(\x08+)", part):
        if not piece.startswith("\b"):
            shown += piece
            written = written or bool(piece)
            continue
        kept = shown[: max(0, len(shown) - len(piece))]
        if written and shown and (not kept.strip() or len(piece) >= _REDRAW_BACKSPACES):
            states.append(shown)
            written = False
        shown = kept
    if written:
        states.append(shown)
    return states


def _clean(part: str) -> str:
    return _CONTROL.sub("", part).replace("\x0b", " ").replace("\x0c", " ")
