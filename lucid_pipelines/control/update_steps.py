"""What the steps of the Update Engine are asked, what they come to, and the files that they hand on.

A day's files lie in one folder and are written atomically: a step may be repeated, and may run in another process than
the one before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.whole_files import write_whole

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """Retrain as of a moment.

    Attributes:
        as_of: end of the UTC day that the model is for; nothing later is seen.
        window: newest part that is kept from training, to judge on.
    """

    as_of: datetime
    window: timedelta = DAY

    @property
    def begin(self) -> datetime:
        """Where training ends and the unseen window begins."""
        return self.as_of - self.window


@dataclass(frozen=True)
class Outcome:
    """What a step came to.

    Attributes:
        done: whether it did its work; otherwise ``reason`` says why there was nothing to do.
        version: the model that it made, judged or put in service.
        promote: the gate's verdict, once there is one.
        facts: numbers for people.
    """

    done: bool
    reason: str
    version: str | None = None
    promote: bool | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


FEATURES, CANDIDATE, OUTCOME = "features.parquet", "candidate.json", "outcome.json"


def day_folder(root: Path, kind: ModelKind, asked: Asked) -> Path:
    """Where the steps of one day leave their files. A moment within a day belongs to that day."""
    day = asked.as_of - timedelta(microseconds=1)
    return root / kind.value / "days" / f"{day:%Y-%m-%d}"


def forget(folder: Path) -> None:
    """Remove what the day's steps left: its first step begins anew."""
    for name in (FEATURES, CANDIDATE, OUTCOME):
        (folder / name).unlink(missing_ok=True)


def skip(folder: Path, reason: str) -> Outcome:
    """There is nothing to do on this day; the later steps will say the same."""
    outcome = Outcome(False, reason)
    write_outcome(folder, outcome)
    return outcome


def skipped(folder: Path, step: str) -> Outcome:
    """What the step before said when it had nothing to do.

    Raises:
        StateError: it has not run.
    """
    found = read_outcome(folder)
    if found is None or found.done:
        raise StateError(f"{step} has not run for this day; materialise it first: {folder.name}")
    return found


def write_outcome(folder: Path, outcome: Outcome) -> None:
    facts = {
        "done": outcome.done,
        "reason": outcome.reason,
        "version": outcome.version,
        "promote": outcome.promote,
        "facts": dict(outcome.facts),
    }
    write_json(folder / OUTCOME, facts)


def read_outcome(folder: Path) -> Outcome | None:
    """What the day's steps have come to so far; ``None`` = none has run."""
    try:
        found = read_json(folder / OUTCOME)
        return Outcome(found["done"], found["reason"], found["version"], found["promote"], found["facts"])
    except FileNotFoundError:
        return None
    except (KeyError, TypeError) as error:
        raise _damaged(folder / OUTCOME, error) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read what ``write_json`` wrote.

    Raises:
        FileNotFoundError: there is none.
        StateError: it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> StateError:
    return StateError(f"{path} is damaged; remove it and materialise the day again: {error!r}")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, atomically."""
    write_whole(path, json.dumps(document, allow_nan=False, default=str))
