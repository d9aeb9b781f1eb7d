"""What happens to a log between the program and the file: prefixes, line ends, colours, copies, other processes."""

from __future__ import annotations

from collections.abc import Callable

from tests.support_tracker.formats import Format
from tests.support_tracker.write import write

Carrier = Callable[[bytes, Format], bytes]
_WARNING = "/usr/lib/python3/torch/nn/functional.py:1234: UserWarning: step 3 is deprecated, lr 0.1 will be used"


def _each(data: bytes, change: Callable[[str], list[str]]) -> bytes:
    lines = data.decode().split("\n")
    return "\n".join(new for line in lines for new in (change(line) if line.strip() else [line])).encode()


def _with_warnings(data: bytes, form: Format) -> bytes:
    if form.redraw:
        return data
    lines = data.decode().split("\n")
    return "\n".join(x for i, line in enumerate(lines) for x in ([line, _WARNING] if i % 5 == 4 else [line])).encode()


def _resumed(data: bytes, form: Format) -> bytes:
    before = write(form, seed=31, reports=60).data
    return before + b"\nTraceback (most recent call last):\nRuntimeError: x\nrestarting from checkpoint\n" + data


def _lagging(data: bytes, form: Format) -> bytes:
    """Two labelled tasks, the second two lines behind."""
    lines = data.decode().split("\n")
    found = ((f"0: {line}", *([f"1: {lines[i - 2]}"] if i >= 2 else [])) for i, line in enumerate(lines))
    return "\n".join(text for pair in found for text in pair).encode()


CARRIERS: dict[str, Carrier] = {
    "rank": lambda data, _: _each(data, lambda line: [f"[rank0]: {line}"]),
    "pod": lambda data, _: _each(data, lambda line: [f"[pod/trainer-abc12/main] {line}"]),
    "crlf": lambda data, _: data.replace(b"\n", b"\r\n"),
    "colour": lambda data, _: _each(data, lambda line: [f"\x1b[32m{line}\x1b[0m"]),
    "twice": lambda data, _: _each(data, lambda line: [line, line]),
    "two tasks": lambda data, _: _each(data, lambda line: [f"0: {line}", f"1: {line}"]),
    "a task behind": _lagging,
    "warnings": _with_warnings,
    "resumed": _resumed,
}
