"""Finds out of which format a file is, from its first bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lucid_pipelines.domain.errors import InputError, LucidError
from lucid_pipelines.traces import alibaba_pai
from lucid_pipelines.traces.canonical import COMMENT, is_parquet
from lucid_pipelines.traces.contract import missing_columns_message
from lucid_pipelines.traces.files import TraceFile, open_bytes
from lucid_pipelines.traces.lines import peek_line, split_header
from lucid_pipelines.traces.registry import CONTRACTS, FORMATS
from lucid_pipelines.traces.slurm_records import separator_of

_PAI_STATES = ("terminated", "failed", "running", "waiting")
_NEAR_FRAC = 0.6
"""From this resemblance on, a file counts as a damaged one of the format."""
_HEAD_BYTES = 1 << 16
_SCAN_LIMIT = 200
"""Files of a folder that are looked at."""


def detect_format(path: str | Path) -> str:
    """Name the format of a trace file, or of the one trace file in a folder.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is empty, damaged or of no known format; what is nearest is named.
    """
    return format_of(find_trace(path))


def find_trace(path: str | Path) -> TraceFile:
    """The file itself, or the only trace file of a folder.

    Raises:
        NotFoundError: there is no such file or folder.
        InputError: the folder holds no trace file, or several.
    """
    file = TraceFile.of(path)
    if not file.path.is_dir():
        return file
    candidates = [TraceFile(entry) for entry in sorted(file.path.iterdir()) if entry.is_file()]
    found = [candidate for candidate in candidates[:_SCAN_LIMIT] if _is_trace(candidate)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(item.label for item in (found or candidates)[:8]) or "nothing"
    count = "several trace files" if found else "no trace file"
    raise InputError(f"the folder holds {count}, name one file of: {names}; got {path}")


def format_of(file: TraceFile) -> str:
    """As ``detect_format``, for a file that is known to exist."""
    if is_parquet(file):
        return "canonical"
    line = peek_line(file)
    if line.startswith(COMMENT):
        return "canonical"
    if line.lstrip()[:1] in ("[", "{"):
        return _json_format(file)
    headerless = _headerless(line, file)
    if headerless is not None:
        return headerless
    header = _header(line)
    fitting = [c for c in CONTRACTS if not c.missing(header) and not c.is_excluded_by(header)]
    if fitting:
        return max(fitting, key=lambda contract: len(contract.required)).format
    raise InputError(_unknown(header, line, file))


def _json_format(file: TraceFile) -> str:
    with open_bytes(file) as source:
        head = source.read(_HEAD_BYTES)
    if b'"jobid"' in head or b'"attempts"' in head:
        return "philly_json"
    raise InputError(
        f"{file.label} is JSON but no Philly cluster_job_log: its objects have neither jobid nor attempts; "
        f"it begins with {head[:80]!r}"
    )


def _is_trace(file: TraceFile) -> bool:
    try:
        return bool(format_of(file))
    except LucidError:
        return False


def _header(line: str) -> list[str]:
    separator = separator_of(line) if "jobid" in line.lower() and "|" in line else ","
    return split_header(line, separator)


def _headerless(line: str, file: TraceFile) -> str | None:
    tabs = line.split("\t")
    if len(tabs) == 7 and all(_is_number(tabs[i]) for i in (4, 5, 6)):
        return "gavel"
    cells = split_header(line, ",")
    has_state = len(cells) > 3 and cells[3].lower() in _PAI_STATES
    if has_state and len(cells) == len(alibaba_pai.CONTRACT.columns):
        return "alibaba_pai"
    if has_state and len(cells) == len(alibaba_pai.JOB_TABLE.columns):
        raise InputError(
            "this is pai_job_table, which says nothing about GPUs: load pai_task_table with this file beside it; "
            f"got {file.label}"
        )
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unknown(header: Sequence[str], line: str, file: TraceFile) -> str:
    open_ones = [c for c in CONTRACTS if not c.headerless and not c.is_excluded_by(header)]
    nearest = max(open_ones, key=lambda contract: contract.resemblance(header))
    missing = nearest.missing(header)
    if missing and len(missing) <= len(nearest.required) / 2 and nearest.resemblance(header) >= _NEAR_FRAC:
        return missing_columns_message(nearest, missing, header, file.label)
    if "\ufffd" in line or "\0" in line:
        return f"{file.label} is no text: its first line is {line[:40]!a}; unpack it, or give the trace itself"
    return (
        f"{file.label} is of no known trace format ({', '.join(FORMATS)}): its first line is {line[:120]!r}; "
        "name the format, or convert the file to the canonical one"
    )
