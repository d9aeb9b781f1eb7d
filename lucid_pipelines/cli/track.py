"""``lucid track``: step, step time, loss and progress out of any training log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from lucid_pipelines.domain.errors import InputError, LucidError
from lucid_pipelines.logs import FileSource, compression_of, refuse_unknown_packing
from lucid_pipelines.tracker.display import live_view, progress_table
from lucid_pipelines.tracker.follow import FollowState, follow
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import track_file

REFRESH_S = 2.0


def track(
    files: Annotated[list[Path], typer.Argument(help="Log files; compressed ones are read as they are.")],
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
    if as_json:
        for file in files:
            _print_json(_read(file), file)
        return
    Console().print(progress_table([(str(file), _read(file)) for file in files]))


def _read(file: Path) -> Progress:
    refuse_unknown_packing(file)
    return track_file(file)


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
            look = follow(source, state)
            state = look.state
            if look.progress != shown:
                shown = look.progress
                yield shown
            done += 1
            if rounds is None or done < rounds:
                sleep(REFRESH_S)
    except KeyboardInterrupt:
        return


def _only(files: list[Path]) -> Path:
    if len(files) != 1:
        raise InputError(f"--follow shows one log; got {len(files)}")
    return files[0]


def _print_json(progress: Progress, file: Path) -> None:
    sys.stdout.write(json.dumps(progress.to_json(str(file)), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the command on its own: ``python -m lucid_pipelines.cli.track``."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(track)
    try:
        app()
    except LucidError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
