"""Notebooks as Python source: code cells only, magics blanked; outputs are never read."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotebookSource:
    """Code of a notebook.

    Attributes:
        text: the code cells one after another.
        lines: for each line of ``text`` the line of the notebook file in which it stands, where found.
    """

    text: str
    lines: tuple[int | None, ...]


def notebook_source(raw: str) -> NotebookSource | None:
    """The code cells of a notebook, or ``None`` when it is no notebook."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list):
        return None
    text: list[str] = []
    lines: list[int | None] = []
    file_lines = raw.split("\n")
    position = 0
    for cell in cells[:2_000]:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        joined = "".join(str(part) for part in source) if isinstance(source, list) else str(source)
        if joined.lstrip().startswith("%%") and not joined.lstrip().startswith(("%%time", "%%capture")):
            continue
        for line in joined.split("\n"):
            stripped = line.lstrip()
            magic = stripped.startswith(("%", "!", "?"))
            text.append(line[: len(line) - len(stripped)] + "pass" if magic else line)
            found = _find(file_lines, line, position)
            if found is not None:
                position = found
            lines.append(None if found is None else found + 1)
    return NotebookSource("\n".join(text), tuple(lines))


def _find(file_lines: list[str], line: str, start: int) -> int | None:
    if not line.strip():
        return None
    wanted = json.dumps(line)[1:-1]
    for number in range(start, min(start + 2_000, len(file_lines))):
        if wanted in file_lines[number]:
            return number
    return None
