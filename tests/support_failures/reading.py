"""Short ways to diagnose a text in tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from lucid_pipelines.failures.diagnosis import Diagnosis, Tools, diagnose_log, shipped_tools
from lucid_pipelines.failures.locate import Located, locate
from lucid_pipelines.failures.records import Record
from lucid_pipelines.failures.scan import Scan, scan
from lucid_pipelines.failures.tracebacks import RecordReader
from lucid_pipelines.logs import LineSplitter, RawLine, detect_labels_in, normalise

UNCAUGHT = 'Traceback (most recent call last):\n  File "/home/u/{}.py", line 7, in <module>\n    run()\n'
"""A traceback of the job's own script, up to its last line; the script's name is to be filled in."""


@lru_cache(maxsize=1)
def tools() -> Tools:
    """Rules and text model, loaded once for all tests."""
    return shipped_tools()


def raws(text: str | bytes) -> list[RawLine]:
    data = text.encode() if isinstance(text, str) else text
    splitter = LineSplitter()
    lines = splitter.feed(data)
    last = splitter.pending()
    return [*lines, last] if last is not None else lines


def scanned(text: str | bytes) -> Scan:
    data = text.encode() if isinstance(text, str) else text
    return scan(raws(data), detect_labels_in(data), tools().judge)


def located(text: str | bytes) -> Located:
    return locate(scanned(text), tools().harmless)


def diagnosed(text: str | bytes, folder: Path, name: str = "job.log") -> Diagnosis:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return diagnose_log(path, tools())


def records(text: str) -> Sequence[Record]:
    """Only the tracebacks of a text."""
    reader = RecordReader()
    found: list[Record] = []
    for at, raw in enumerate(raws(text)):
        for line in normalise(raw):
            found += reader.feed(line, at)[1]
    return sorted([*found, *reader.finish()], key=lambda record: record.position)


def ended(*lines: str, steps: int = 200) -> bytes:
    """A log of training progress with some last lines."""
    return (progress(0, steps) + "\n".join(lines) + "\n").encode()


def progress(first: int, count: int) -> str:
    """Lines of training progress."""
    return "".join(f"step {first + i} loss {5 / (first + i + 1):.4f} lr 0.0003\n" for i in range(count))
