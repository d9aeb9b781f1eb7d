"""What a duration model is trained on, as arrays; as a Parquet file it is the artefact of the features step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lucid_pipelines.models.additive.schema import Matrix
from lucid_pipelines.models.artefacts.document import ArtefactError
from lucid_pipelines.models.duration.features import Lessons, duration_features, user_days
from lucid_pipelines.models.naming.buckets import NameBuckets
from lucid_pipelines.whole_files import whole_file

Vector = npt.NDArray[np.float64]
_META = b"lucid"


@dataclass(frozen=True)
class TrainingSet:
    """One row per run that teaches.

    Attributes:
        matrix: rows × ``duration_features``; the nominal columns are NaN.
        durations_s: what became of each.
        known_at_s, ended_at_s: when each row's features were known, and when it ended.
        users, row_buckets: nominal values of each row.
        buckets: the name buckets that the rows were put into.
        as_of: nothing later was looked at.
        left_out: rows of history that do not teach, by reason.
    """

    matrix: Matrix
    durations_s: Vector
    known_at_s: Vector
    ended_at_s: Vector
    users: tuple[str, ...]
    row_buckets: tuple[str | None, ...]
    buckets: NameBuckets
    as_of: datetime
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, lessons: Lessons, buckets: NameBuckets, as_of: datetime, left_out: Mapping[str, int]) -> TrainingSet:
        return cls(
            lessons.matrix,
            lessons.durations_s,
            lessons.known_at_s,
            lessons.ended_at_s,
            tuple(row.user for row in lessons.rows),
            lessons.buckets,
            buckets,
            as_of,
            dict(left_out),
        )

    def __len__(self) -> int:
        return len(self.durations_s)

    @property
    def target(self) -> Vector:
        """log(1 + seconds)."""
        return np.log1p(self.durations_s)

    @property
    def blocks(self) -> npt.NDArray[np.intp]:
        """One number per user and day: such rows are alike and are held back together."""
        return user_days(self.users, self.known_at_s)

    def write(self, path: Path) -> None:
        """Write it as Parquet, atomically; what is not a column goes into the file's metadata."""
        columns: dict[str, object] = {
            feature.name: self.matrix[:, i]
            for i, feature in enumerate(duration_features())
            if feature.name not in ("user", "bucket")
        }
        columns |= {
            "user": list(self.users),
            "bucket": list(self.row_buckets),
            "duration_s": self.durations_s,
            "known_at_s": self.known_at_s,
            "ended_at_s": self.ended_at_s,
        }
        facts = {"as_of": self.as_of.isoformat(), "left_out": dict(self.left_out), "buckets": self.buckets.to_json()}
        schema = pa.schema(
            [(name, pa.string() if name in ("user", "bucket") else pa.float64()) for name in columns],
            metadata={_META: json.dumps(facts).encode()},
        )
        with whole_file(path) as temporary:
            pq.write_table(pa.table(columns, schema=schema), temporary)

    @classmethod
    def read(cls, path: Path) -> TrainingSet:
        """Read what ``write`` wrote.

        Raises:
            ArtefactError: no such file, another file, or features of another version of this program.
        """
        try:
            table = pq.read_table(path)
            facts = json.loads((table.schema.metadata or {})[_META])
            names = [feature.name for feature in duration_features()]
            count = table.num_rows
            matrix = np.full((count, len(names)), np.nan)
            for i, name in enumerate(names):
                if name not in ("user", "bucket"):
                    matrix[:, i] = table[name].to_numpy()
            return cls(
                matrix,
                table["duration_s"].to_numpy(),
                table["known_at_s"].to_numpy(),
                table["ended_at_s"].to_numpy(),
                tuple(table["user"].to_pylist()),
                tuple(table["bucket"].to_pylist()),
                NameBuckets.from_json(facts["buckets"]),
                datetime.fromisoformat(facts["as_of"]),
                facts["left_out"],
            )
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise ArtefactError(f"these features cannot be used; make them again: {path}: {error!r}") from error
