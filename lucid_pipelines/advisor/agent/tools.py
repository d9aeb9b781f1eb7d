"""What the model may do: list a folder, read a part of a file. Both end at the snapshot's root (R-43)."""

from __future__ import annotations

from dataclasses import dataclass, field

from lucid_pipelines.advisor.agent.redaction import redact
from lucid_pipelines.advisor.source_tree import SECRET_NAMES, SKIPPED_FOLDERS, SourceTree

MAX_ENTRIES = 200
MAX_LINES = 160
MAX_CHARS = 8_000
MAX_LINE_CHARS = 400


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call, for the record: what was asked for, and whether it was given."""

    tool: str
    path: str
    granted: bool
    detail: str


@dataclass(slots=True)
class Tools:
    """Read-only tools over one snapshot.

    Attributes:
        uses: every call.
        shown: lines of each file that the model has seen.
    """

    tree: SourceTree
    uses: list[ToolUse] = field(default_factory=list)
    shown: dict[str, set[int]] = field(default_factory=dict)

    def file_tree(self, path: str) -> str:
        """Names below a folder, one a line, folders with a slash; at most ``MAX_ENTRIES``."""
        folder = self.tree.relative(path)
        if folder is None or not self.tree.is_dir(folder):
            return self._refuse("file_tree", path, "no such folder in the snapshot")
        folders, files = self.tree.children(folder)
        hidden = [name for name in files if SECRET_NAMES.search(name)]
        names = [f"{name}/" for name in folders if name not in SKIPPED_FOLDERS]
        names += [name for name in files if name not in hidden]
        self.uses.append(ToolUse("file_tree", folder, True, f"{min(len(names), MAX_ENTRIES)} names"))
        more = [f"… {len(names) - MAX_ENTRIES} more"] if len(names) > MAX_ENTRIES else []
        return "\n".join([*(_printable(name) for name in names[:MAX_ENTRIES]), *more]) or "(empty)"

    def file_read(self, path: str, line: int) -> str:
        """Lines of a text file from ``line`` on, numbered, secrets taken out; at most ``MAX_LINES``."""
        file = self.tree.relative(path)
        if file is None or not self.tree.is_file(file):
            return self._refuse("file_read", path, "no such file in the snapshot")
        text = self.tree.read_text(file)
        if text is None:
            return self._refuse("file_read", file, "this file may not or cannot be read")
        lines = redact(text).split("\n")
        if line > len(lines):
            return self._refuse("file_read", file, f"the file has {len(lines)} lines")
        given: list[str] = []
        size = 0
        seen = self.shown.setdefault(file, set())
        for number in range(line, min(len(lines), line + MAX_LINES - 1) + 1):
            row = f"{number}: {_printable(lines[number - 1][:MAX_LINE_CHARS])}"
            size += len(row) + 1
            if size > MAX_CHARS:
                break
            given.append(row)
            seen.add(number)
        self.uses.append(ToolUse("file_read", file, True, f"lines {line} to {line + len(given) - 1}"))
        last = line + len(given) - 1
        more = [f"… {len(lines) - last} more lines"] if last < len(lines) else []
        return "\n".join([*given, *more])

    def _refuse(self, tool: str, path: str, why: str) -> str:
        self.uses.append(ToolUse(tool, path, False, why))
        return f"refused: {why}"


def _printable(text: str) -> str:
    """Without control characters, which could make one line look like several."""
    return "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in text)
