"""A retry that Dagster's daemon has missed is asked for again, a bounded number of times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterEventType, DagsterInstance, DagsterRunStatus
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, WILL_RETRY_TAG
from dagster._core.test_utils import create_run_for_test

from lucid_pipelines.sensors.lost_retries import CURSOR, PATIENCE_S, ask_again


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def failed_run(instance: DagsterInstance, **tags: str) -> str:
    """A run whose failure the daemon has looked at."""
    run = create_run_for_test(instance, status=DagsterRunStatus.STARTED, tags=tags)
    instance.report_run_failed(run)
    newest = instance.event_log_storage.get_maximum_record_id()
    instance.daemon_cursor_storage.set_cursor_values({CURSOR: str(newest)})
    return run.run_id


def looked_to(instance: DagsterInstance) -> int:
    return int(instance.daemon_cursor_storage.get_cursor_values({CURSOR})[CURSOR])


def test_the_daemon_looks_again_at_a_failure_whose_retry_is_missing(instance: DagsterInstance) -> None:
    run_id = failed_run(instance, **{WILL_RETRY_TAG: "true"})
    before = looked_to(instance)
    assert ask_again(instance, {}, time.time()) == {}, "the daemon is given its time"
    assert looked_to(instance) == before
    later_s = time.time() + 2 * PATIENCE_S
    assert ask_again(instance, {}, later_s) == {run_id: 1}
    again = instance.event_log_storage.get_logs_for_all_runs_by_log_id(
        after_cursor=looked_to(instance), dagster_event_type={DagsterEventType.RUN_FAILURE}
    )
    assert [event.run_id for event in again.values()] == [run_id]


def test_it_is_asked_for_a_bounded_number_of_times(instance: DagsterInstance) -> None:
    run_id = failed_run(instance, **{WILL_RETRY_TAG: "true"})
    later_s, asked = time.time() + 2 * PATIENCE_S, {}
    for _ in range(9):
        asked = ask_again(instance, asked, later_s)
    assert asked == {run_id: 5}
    newest = instance.event_log_storage.get_maximum_record_id()
    instance.daemon_cursor_storage.set_cursor_values({CURSOR: str(newest)})
    ask_again(instance, asked, later_s)
    assert looked_to(instance) == newest


@pytest.mark.parametrize("tags", [{}, {WILL_RETRY_TAG: "false"}, {WILL_RETRY_TAG: "true", AUTO_RETRY_RUN_ID_TAG: "r"}])
def test_no_other_failure_is_looked_at_again(instance: DagsterInstance, tags: dict[str, str]) -> None:
    failed_run(instance, **tags)
    before = looked_to(instance)
    assert ask_again(instance, {}, time.time() + 2 * PATIENCE_S) == {}
    assert looked_to(instance) == before
