"""Past jobs as JSON lines: to carry a history from one index to another, or to bring one in from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lucid_pipelines.advisor.past_job_json import check_times, past_job_from_json, past_job_to_json
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.similarity import PastJob

MAX_LINE_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that is no past job."""

    line: int
    why: str


def read_lines(lines: Iterable[str]) -> Iterator[PastJob | Refused]:
    """Past jobs, and for every line that is none the reason; nothing is dropped in silence (R-44)."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield check_times(past_job_from_json(_object(line)))
        except InputError as error:
            yield Refused(number, str(error))


def write_lines(jobs: Iterable[PastJob]) -> Iterator[str]:
    """One line for each past job."""
    for job in jobs:
        yield json.dumps(past_job_to_json(job), ensure_ascii=False) + "\n"


def _object(line: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_CHARS:
        raise InputError(f"a line is at most {MAX_LINE_CHARS} characters long")
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a line is one JSON object: {str(error)[:120]}") from error
    if not isinstance(value, dict):
        raise InputError("a line is one JSON object")
    return value
