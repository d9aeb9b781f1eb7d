"""A predictor's history as a file, so that a process that starts need not read all of history again.

The file belongs to one model version. It says up to which moment it has seen ends; whoever reads it tells it what
ended since. It is a cache: a missing, damaged or foreign file means that history is read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.duration.history import HistoryIndex
from lucid_pipelines.models.duration.model import DurationModel
from lucid_pipelines.models.duration.predicting import DurationPredictor
from lucid_pipelines.models.duration.selecting import select_rows
from lucid_pipelines.models.naming.buckets import NameBuckets
from lucid_pipelines.whole_files import write_whole

_FORMAT = "lucid-duration-memory/1"
LATE = timedelta(hours=1)
"""An end may be written down so long after it happened; rows of this stretch are asked for again."""


@dataclass
class Memory:
    """A predictor and how far it has come.

    Attributes:
        seen_until: every end before ``seen_until − LATE`` has been told.
        recent_ids: attempts told that ended later than that.
        told: ends told since the file was written.
    """

    predictor: DurationPredictor
    seen_until: datetime | None = None
    recent_ids: dict[str, datetime] = field(default_factory=dict)
    told: int = 0

    @property
    def since(self) -> datetime | None:
        """From where on rows of history are needed; ``None`` = from the beginning."""
        return None if self.seen_until is None else self.seen_until - LATE

    def tell(self, rows: Iterable[HistoryRow], now: datetime) -> int:
        """Tell the predictor what ended; rows that it knows are skipped. Returns how many were new."""
        fresh = [row for row in rows if row.attempt_id not in self.recent_ids]
        selection = select_rows(fresh, now)
        self.predictor.learn(selection.rows)
        for row in selection.rows:
            self.recent_ids[row.attempt_id] = row.ended_at
        self.seen_until = now if self.seen_until is None else max(self.seen_until, now)
        edge = self.seen_until - LATE
        self.recent_ids = {key: ended_at for key, ended_at in self.recent_ids.items() if ended_at >= edge}
        self.told += len(selection.rows)
        return len(selection.rows)

    def write(self, path: Path) -> None:
        """Write the file, atomically."""
        document = {
            "format": _FORMAT,
            "version": self.predictor.model.version,
            "seen_until": None if self.seen_until is None else self.seen_until.isoformat(),
            "recent_ids": {key: at.isoformat() for key, at in self.recent_ids.items()},
            "buckets": self.predictor.buckets.to_json(),
            "index": self.predictor.index.to_json(),
        }
        write_whole(path, json.dumps(document, separators=(",", ":")))
        self.told = 0


def remember(model: DurationModel, path: Path) -> Memory:
    """What the file remembers for this model; else an empty memory."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT or document["version"] != model.version:
            raise ValueError("another model's")
        seen = document["seen_until"]
        predictor = DurationPredictor(
            model, HistoryIndex.from_json(document["index"]), NameBuckets.from_json(document["buckets"])
        )
        return Memory(
            predictor,
            None if seen is None else datetime.fromisoformat(seen),
            {str(key): datetime.fromisoformat(at) for key, at in document["recent_ids"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return Memory(DurationPredictor(model))
