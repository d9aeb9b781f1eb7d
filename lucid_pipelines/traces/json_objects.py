"""Objects of a JSON list (or of JSON lines), one after another, with bounded memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces.files import ByteSource

READ_BYTES = 1 << 20
OBJECT_LIMIT = 1 << 24
"""Characters; no job of a trace is longer."""
TEXT_LIMIT = 500
_BETWEEN = " \t\r\n,[]"


@dataclass(frozen=True, slots=True)
class JsonRow:
    """One object: its place in the list from 1, its content and its text (shortened)."""

    number: int
    value: Mapping[str, object]
    text: str
    is_utf8: bool = True


def json_objects(source: ByteSource) -> Iterator[list[JsonRow]]:
    """Yield the top-level objects in batches.

    Raises:
        InputError: something other than an object stands in the list, an object is damaged, or the text ends
            inside of one; the number of the last good object is named.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    scanner = json.JSONDecoder()
    buffer, number, depth, is_last = "", 0, 0, False
    while not is_last:
        data = source.read(READ_BYTES)
        is_last = not data
        buffer += decoder.decode(data, final=is_last)
        rows: list[JsonRow] = []
        position = 0
        while True:
            skipped = _skip(buffer, position)
            depth += buffer.count("[", position, skipped) - buffer.count("]", position, skipped)
            position = skipped
            if position >= len(buffer):
                break
            if buffer[position] != "{":
                raise InputError(_message(source, number, f"{buffer[position : position + 40]!r} is not an object"))
            try:
                value, end = scanner.raw_decode(buffer, position)
            except (ValueError, RecursionError) as error:
                if is_last or len(buffer) - position > OBJECT_LIMIT or isinstance(error, RecursionError):
                    raise InputError(_message(source, number, str(error))) from error
                break
            number += 1
            is_utf8 = "\ufffd" not in buffer[position:end]
            text = buffer[position : min(end, position + TEXT_LIMIT)]
            rows.append(JsonRow(number, cast("dict[str, object]", value), text, is_utf8))
            position = end
        buffer = buffer[position:]
        if rows:
            yield rows
    if depth:
        raise InputError(_message(source, number, "the list is not closed"))
    if number == 0:
        raise InputError(f"the trace file holds no jobs: {source.label}")


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BETWEEN:
        position += 1
    return position


def _message(source: ByteSource, number: int, problem: str) -> str:
    return (
        f"the file must be a JSON list of job objects; after {number} good ones comes something else "
        f"(damaged or cut off: {problem}): {source.label}"
    )
