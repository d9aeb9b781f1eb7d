"""Answers that are remembered, in memory that is bounded whatever the texts are (R-12)."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key", str, bytes)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """Remembers up to a number of answers and a size of their keys; when full it begins again.

    Args:
        max_entries: how many answers.
        max_size: characters or bytes of all keys together.
    """

    def __init__(self, max_entries: int = 20_000, max_size: int = 16_000_000) -> None:
        self._found: dict[Key, Value] = {}
        self._max_entries, self._max_size = max_entries, max_size
        self._size = 0

    def get(self, key: Key) -> Value | None:
        return self._found.get(key)

    def put(self, key: Key, value: Value) -> None:
        if len(self._found) >= self._max_entries or self._size + len(key) > self._max_size:
            self._found.clear()
            self._size = 0
        self._found[key] = value
        self._size += len(key)

    def __len__(self) -> int:
        return len(self._found)
