"""A language model that says what a test wants, through the port."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lucid_pipelines.domain.errors import ExternalError

Turn = Mapping[str, Any] | Callable[[Sequence[Mapping[str, str]]], Mapping[str, Any]] | Exception


def tree(path: str = "") -> dict[str, Any]:
    return {"thought": "", "action": "file_tree", "path": path, "line": 1, "facts": []}


def read(path: str, line: int = 1) -> dict[str, Any]:
    return {"thought": "", "action": "file_read", "path": path, "line": line, "facts": []}


def finish(*facts: tuple[str, Any, str, int]) -> dict[str, Any]:
    """Report facts: field, value, file, line."""
    told = [{"field": name, "value": value, "file": file, "line": line} for name, value, file, line in facts]
    return {"thought": "", "action": "finish", "path": "", "line": 1, "facts": told}


class ModelDouble:
    """Says its turns in order; the last for ever. ``seen`` holds what it was shown each time."""

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.seen: list[list[dict[str, str]]] = []
        self.timeouts_s: list[float] = []

    def complete_json(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], timeout_s: float
    ) -> Mapping[str, object]:
        assert schema["type"] == "object"
        self.seen.append([dict(message) for message in messages])
        self.timeouts_s.append(timeout_s)
        turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
        if isinstance(turn, Exception):
            raise turn
        return turn(messages) if callable(turn) else turn

    @property
    def last_shown(self) -> dict[str, Any]:
        """The content of the newest message."""
        return json.loads(self.seen[-1][-1]["content"])

    @property
    def everything_shown(self) -> str:
        return "\n".join(message["content"] for messages in self.seen for message in messages)


UNREACHABLE = ExternalError("the language model server failed, twice")
