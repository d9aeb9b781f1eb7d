"""Reading a GPU allocator's out-of-memory message: who holds the memory?"""

from __future__ import annotations

import re

_SIZE = r"(?P<n>[\d.]+) (?P<u>[KMGT]i?B|bytes)"
_SIZE_2 = _SIZE.replace("<n>", "<n2>").replace("<u>", "<u2>")
_PATTERNS = {
    "total": re.compile(rf"total capacity of {_SIZE}|{_SIZE_2} total capacity"),
    "free": re.compile(rf"of which {_SIZE} is free|{_SIZE_2} free"),
    "own": re.compile(rf"this process has {_SIZE}"),
    "reserved": re.compile(rf"{_SIZE} reserved"),
    "allocated": re.compile(rf"{_SIZE} already allocated"),
    "wanted": re.compile(rf"Tried to allocate {_SIZE}"),
}
_OTHER_PROCESS = re.compile(rf"Process \d+ has {_SIZE}")
_UNITS = {"b": 2.0**-30, "k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10}


def memory_held_by_others(text: str) -> bool:
    """Whether an out-of-memory message shows a full GPU of which this process holds less than half (R-21).

    Args:
        text: PyTorch's message, in its form before or since 2.1.
    """
    sizes = {name: _gib(match) for name, pattern in _PATTERNS.items() if (match := pattern.search(text))}
    total = sizes.get("total")
    own = sizes.get("own", sizes.get("reserved", sizes.get("allocated")))
    if total is None or own is None:
        return False
    others = sum(_gib(match) for match in _OTHER_PROCESS.finditer(text))
    wanted, free = sizes.get("wanted", 0.0), sizes.get("free", 0.0)
    is_full = others > 0.3 * total or free < wanted or free < 0.1 * total
    return own + wanted < 0.5 * total and is_full


def _gib(match: re.Match[str]) -> float:
    groups = match.groupdict()
    number, unit = groups.get("n") or groups.get("n2"), groups.get("u") or groups.get("u2")
    try:
        return float(number or 0) * _UNITS[(unit or "g")[0].lower()]
    except ValueError:
        return 0.0
