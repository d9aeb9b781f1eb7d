"""A control plane with a clock of its own, a made-up history and made-up submissions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import insert, select

from lucid_pipelines.client import Client
from lucid_pipelines.control.model_updates import Updates
from lucid_pipelines.control.requests import parse_request
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Job
from lucid_pipelines.models.duration.training import DurationSettings
from lucid_pipelines.models.throughput import SubmissionSeries
from lucid_pipelines.models.throughput.training import ThroughputSettings
from lucid_pipelines.store import Store, tables
from tests.support_control.pretend import OwnClock
from tests.support_control.worlds import make_client
from tests.support_models.worlds import QUICK

FAST = DurationSettings(fit=QUICK, min_category_rows=30)
FAST_SLOTS = ThroughputSettings(fit=QUICK, draws=1)


def open_system(home: Path, now: datetime) -> tuple[Client, System, OwnClock]:
    """The client is to be closed by the caller."""
    client = make_client(home)
    clock = OwnClock(now)
    return client, replace(client.system, clock=clock), clock


def engine(system: System) -> Updates:
    return Updates(system, duration=FAST, throughput=FAST_SLOTS)


def waiting(system: System, **spec: object) -> Job:
    """A submitted job."""
    request = parse_request({"command": ["true"], **spec})
    return system.store.jobs.submit(request.to_spec(vc="nlp", snapshot_digest=None), system.clock.now())[0]


def add_submissions(store: Store, series: SubmissionSeries) -> None:
    """One job for each counted submission, in its slot, as if long ago."""
    request = parse_request({"command": ["true"], "name": "old"})
    first, _ = store.jobs.submit(request.to_spec(vc="nlp", snapshot_digest=None), datetime(2025, 1, 1, tzinfo=UTC))
    database = store.jobs._database  # rows in bulk: thousands of transactions would take a minute
    row = database.read(
        lambda c: dict(c.execute(select(tables.jobs).where(tables.jobs.c.job_id == first.job_id)).mappings().one())
    )
    rows = []
    for slot, (start_s, jobs, gpus) in enumerate(zip(series.starts_s(), series.jobs, series.gpus, strict=True)):
        at = datetime.fromtimestamp(float(start_s) + 1.0, UTC)
        rows += [
            row | {"job_id": f"s{slot}-{n}", "submitted_at": at, "gpus": int(gpus / max(jobs, 1)), "state": "completed"}
            for n in range(int(jobs))
        ]
    database.write(lambda tx: [tx.execute(insert(tables.jobs), chunk) for chunk in _chunks(rows)])


def _chunks(rows: Sequence[dict]) -> list[Sequence[dict]]:
    return [rows[start : start + 500] for start in range(0, len(rows), 500)]
