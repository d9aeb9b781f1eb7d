"""Submissions of this cluster per ten minutes: one UTC day as a table, and the whole series as of a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lucid_pipelines.control.estimating import MAX_HISTORY
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.throughput import SubmissionSeries, count_submissions
from lucid_pipelines.store import Store
from lucid_pipelines.whole_files import whole_file

SCHEMA = pa.schema(
    [("time", pa.timestamp("us", tz="UTC")), ("submit_gpu_job", pa.int32()), ("submit_gpu_num", pa.int32())]
)
"""The columns of published throughput tables, so that both can be read alike."""


def submissions_until(store: Store, until: datetime) -> SubmissionSeries:
    """What was submitted before a moment, of at most the last year.

    Raises:
        InputError: nothing was submitted before it.
    """
    found = store.jobs.submissions(since=until - MAX_HISTORY, until=until)
    if not found:
        raise InputError(f"nothing was submitted before {until:%Y-%m-%d %H:%M} UTC")
    return count_submissions(found, begin=found[0][0], until=until)


def day_series(store: Store, day: datetime) -> SubmissionSeries:
    """The slots of one UTC day."""
    until = day + timedelta(days=1)
    return count_submissions(store.jobs.submissions(since=day, until=until), begin=day, until=until)


def write_day(series: SubmissionSeries, folder: Path, day: datetime) -> Path:
    """Write the day as Parquet (``SCHEMA``), atomically; writing it again replaces it."""
    path = folder / f"{day:%Y-%m-%d}.parquet"
    table = pa.table(
        {
            "time": [datetime.fromtimestamp(start_s, UTC) for start_s in series.starts_s().tolist()],
            "submit_gpu_job": series.jobs.astype(int).tolist(),
            "submit_gpu_num": series.gpus.astype(int).tolist(),
        },
        schema=SCHEMA,
    )
    with whole_file(path) as temporary:
        pq.write_table(table, temporary)
    return path
