"""``lucid track``: step, step time, loss and progress out of any training log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.live import Live

from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError, NotFoundError
from lucid_pipelines.logs import BLOCK_BYTES, FileSource, compression_of, require_log_file
from lucid_pipelines.tracker.display import live_view, missing_notes, progress_table
from lucid_pipelines.tracker.follow import FollowState, follow
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import track_blocks, track_file

REFRESH_S = 2.0
STANDARD_INPUT = Path("-")
GONE = "there is no log any more; waiting for it to come back"


def track(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Log files; compressed ones are read as they are; - is standard input."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line and file, in order; null = the log does not tell.")
    ] = False,
    follow_log: Annotated[bool, typer.Option("--follow", help="Show one growing log live until Ctrl-C.")] = False,
) -> None:
    """Read training logs and report how far the jobs have come: step, seconds per step, loss, remaining time.

    The training code is not touched; its printed lines are all there is. What a log does not print is reported as
    missing, with the reason, never guessed.
    """
    if follow_log:
        watch(_only(files), Console(), as_json=as_json)
        return
    if len(files) == 1:
        _show([(files[0], _read(files[0]))], as_json=as_json)
        return
    errors: list[LucidError] = []
    _show(((file, _read_or_note(file, errors)) for file in files), as_json=as_json)
    if errors:
        # Every log has its row; the status still tells that some could not be read.
        raise errors[0]


def _show(rows: Iterable[tuple[Path, Progress]], *, as_json: bool) -> None:
    if as_json:
        for file, progress in rows:
            _print_json(progress, file)
        return
    shown = [(str(file), progress) for file, progress in rows]
    Console().print(progress_table(shown), *missing_notes(shown), sep="\n")


def _read(file: Path) -> Progress:
    if file == STANDARD_INPUT:
        stream = cast("BufferedReader", sys.stdin.buffer)
        return track_blocks(iter(lambda: stream.read1(BLOCK_BYTES), b""))
    try:
        require_log_file(file)
        return track_file(file)
    except NotFoundError as error:
        if len(file.parts) > 1 or file.suffix:
            raise
        raise NotFoundError(f"{error}; if that is a job, ask `lucid metrics {file}`") from error


def _read_or_note(file: Path, errors: list[LucidError]) -> Progress:
    try:
        return _read(file)
    except LucidError as error:
        errors.append(error)
        return Progress(fallback_reason=str(error))


def watch(
    file: Path,
    console: Console,
    *,
    as_json: bool = False,
    rounds: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look at a growing log again and again, and show what changed.

    Args:
        file: an uncompressed log.
        console: where to draw.
        as_json: print a JSON object for every change instead of drawing.
        rounds: how many looks; ``None`` = until interrupted.
        sleep: waits between looks.

    Raises:
        InputError: a compressed log, which cannot grow.
        NotFoundError, ExternalError: the log is not there or cannot be read.
    """
    if file == STANDARD_INPUT:
        raise InputError("standard input cannot be followed: give a file, or leave out --follow")
    if compression_of(file) is not None:
        raise InputError(f"a compressed log does not grow; leave out --follow to read {file}")
    if as_json:
        for progress in _changes(file, rounds, sleep):
            _print_json(progress, file)
        return
    with Live(console=console, auto_refresh=False) as live:
        for progress in _changes(file, rounds, sleep):
            live.update(live_view(str(file), progress), refresh=True)


def _changes(file: Path, rounds: int | None, sleep: Callable[[float], None]) -> Iterator[Progress]:
    """Every new answer, until interrupted."""
    source, state = FileSource(file), FollowState()
    shown: Progress | None = None
    done = 0
    try:
        while rounds is None or done < rounds:
            progress, state = _look(source, state, shown)
            if progress != shown:
                shown = progress
                yield shown
            done += 1
            if rounds is None or done < rounds:
                sleep(REFRESH_S)
    except KeyboardInterrupt:
        return


def _look(source: FileSource, state: FollowState, shown: Progress | None) -> tuple[Progress, FollowState]:
    """The answer now; of a log that was there and is not (it is being rotated, or was deleted), the last one."""
    try:
        look = follow(source, state)
    except (NotFoundError, ExternalError) as error:
        if shown is None:
            raise
        reason = GONE if isinstance(error, NotFoundError) else str(error)
        return replace(shown, fallback_reason=reason), FollowState()
    return look.progress, look.state


def _only(files: list[Path]) -> Path:
    if len(files) != 1:
        raise InputError(f"--follow shows one log; got {len(files)}")
    return files[0]


def _print_json(progress: Progress, file: Path) -> None:
    sys.stdout.write(json.dumps(progress.to_json(str(file)), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()
