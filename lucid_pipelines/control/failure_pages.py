"""The report for people of one failed attempt: a Markdown page in the job's folder."""

from __future__ import annotations

from pathlib import Path

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.whole_files import write_whole

_NAME = "failure.md"


def page_path(system: System, attempt: Attempt) -> Path:
    """Where the page of an attempt lies, once it has one."""
    return system.settings.jobs / attempt.job_id / "attempts" / str(attempt.number) / _NAME


def write_page(system: System, attempt: Attempt, page: str) -> None:
    """Write the page, whole or not at all.

    Raises:
        ExternalError: the folder cannot be written to.
    """
    path = page_path(system, attempt)
    try:
        write_whole(path, page)
    except OSError as error:
        raise ExternalError(f"the report of a failure cannot be written: {path.parent}: {error}") from error


def read_page(system: System, attempt: Attempt) -> str | None:
    """The page of an attempt; ``None`` when it has none: it did not fail, or its failure waits to be handled."""
    try:
        return page_path(system, attempt).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ExternalError(f"the report of a failure cannot be read: {error}") from error
