"""Retries of failed runs that Dagster's daemon has missed, asked for again.

The daemon looks at every failure once, when its event is stored. A look between the event and the change of the run's
state sees a run that has not failed: no retry is started, and a backfill waits for it for ever. Both are polled in
step by one process, so this happens (see ``docs/decisions/0002-dagster-instance.md``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from dagster import (
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunsFilter,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, WILL_RETRY_TAG

CURSOR = f"EVENT_LOG_CONSUMER_CURSOR-{DagsterEventType.RUN_FAILURE.value}"
PATIENCE_S = 20.0
"""The daemon looks every five seconds."""
_LOOK_BACK = timedelta(hours=6)
_EVENTS = 20_000
_MOST_RUNS = 50
_MOST_TIMES = 5


def ask_again(instance: DagsterInstance, asked: Mapping[str, int], now_s: float) -> dict[str, int]:
    """Let the daemon look again at failed runs that should have been tried again and were not.

    It starts no retry twice: it first looks for one that exists.

    Args:
        asked: how often this was done for a run, by its id; after five times it is left to a person.
        now_s: seconds since 1970-01-01 UTC.

    Returns:
        ``asked`` of the runs that still wait for their retry.
    """
    since = datetime.fromtimestamp(now_s, UTC) - _LOOK_BACK
    failed = RunsFilter(statuses=[DagsterRunStatus.FAILURE], tags={WILL_RETRY_TAG: "true"}, updated_after=since)
    lost = {
        record.dagster_run.run_id
        for record in instance.get_run_records(failed, limit=_MOST_RUNS)
        if AUTO_RETRY_RUN_ID_TAG not in record.dagster_run.tags
        and record.end_time is not None
        and now_s - record.end_time > PATIENCE_S
    }
    counts = {run_id: asked.get(run_id, 0) for run_id in sorted(lost)}
    due = {run_id for run_id, count in counts.items() if count < _MOST_TIMES}
    looked_to = instance.daemon_cursor_storage.get_cursor_values({CURSOR}).get(CURSOR)
    if not due or looked_to is None:
        return counts
    events = instance.event_log_storage.get_logs_for_all_runs_by_log_id(
        after_cursor=max(-1, int(looked_to) - _EVENTS), dagster_event_type={DagsterEventType.RUN_FAILURE}
    )
    missed = [number for number, event in events.items() if event.run_id in due and number <= int(looked_to)]
    if missed:
        instance.daemon_cursor_storage.set_cursor_values({CURSOR: str(min(missed) - 1)})
    return {run_id: count + (run_id in due) for run_id, count in counts.items()}


@sensor(
    minimum_interval_seconds=60,
    default_status=DefaultSensorStatus.RUNNING,
    description="Asks Dagster's daemon again for retries of failed runs that it has missed; starts no run itself.",
)
def lost_retry_sensor(context: SensorEvaluationContext) -> SkipReason:
    """A look at the few runs that failed lately; what was asked for is in the sensor's cursor."""
    asked = ask_again(context.instance, json.loads(context.cursor or "{}"), time.time())
    context.update_cursor(json.dumps(asked))
    return SkipReason(f"asked again for {len(asked)} retries" if asked else "no retry is missing")
