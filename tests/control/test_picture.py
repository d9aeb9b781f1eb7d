"""What people are shown: the binder's verdict rule by rule, pairs, pool, loans, and starts with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from lucid_pipelines.cli.cluster_tables import node_rows, node_table, pair_rows, pair_table, queue_rows, queue_table
from lucid_pipelines.control.explaining import explain
from lucid_pipelines.control.picture import Picture, take_picture
from lucid_pipelines.control.plain_words import tell
from lucid_pipelines.control.start_times import predicted_starts
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.placement import RULES
from lucid_pipelines.store import Store
from tests.control.test_live_pairs import pair_of, until_known
from tests.control.test_live_profiling import POOL, SHORT
from tests.support_control.live_days import Session
from tests.support_control.scripted import ScriptedJob


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def printed(picture: Picture) -> str:
    console = Console(width=200, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    for table in (node_table(node_rows(picture)), pair_table(picture), queue_table(picture, 20)):
        console.print(table)
    return console.export_text()


def test_explain_shows_every_rule_for_the_nearest_partner(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, memory_mib=21_000.0, util_pct=90.0)
    until_known(session)
    session.run_pass()
    waiting = explain(session.system, session.ids["short"]).waiting
    assert waiting is not None and waiting.start_low_at is None, "a scripted estimate has no interval"
    assert waiting.predicted_start_at is not None
    words = dict(tell(reason) for reason in waiting.reasons)
    assert session.ids["long"] in words["nearest partner"] and "memory would not do" in words["nearest partner"]
    by_rule = {str(reason["rule"]): reason for reason in waiting.reasons}
    assert by_rule["memory_safe"]["holds"] is False and by_rule["same_gpus"]["holds"] is True
    assert words["  memory suffices"].startswith("no: 4096 + 4096") is False
    assert words["  memory suffices"].startswith("no: 21504 + 4096 of 24576 MiB")
    enabled = [name for name in RULES if name != "same_user"]
    assert all(name in by_rule for name in enabled), "rule by rule"
    assert not any("_" in title for title in words), "no internal names"


def test_explain_says_that_a_person_is_waited_for(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, modes={"pack": "approve"})
    until_known(session)
    session.run_pass()
    waiting = explain(session.system, session.ids["short"]).waiting
    assert waiting is not None
    words = dict(tell(reason) for reason in waiting.reasons)
    assert session.ids["long"] in words["proposed"] and "waits for a person" in words["proposed"]


def test_top_shows_pairs_pool_and_queue(store: Store, tmp_path: Path) -> None:
    jobs = [ScriptedJob("a", work_s=60.0), ScriptedJob("b", work_s=60.0), ScriptedJob("wide", gpus=4, work_s=20.0)]
    session = Session.open(tmp_path, store, POOL, [*jobs, ScriptedJob("behind", gpus=4)], profiling=SHORT)
    session.submit("wide", "behind", "a", "b")
    session.run_pass()
    session.run_pass()
    picture = take_picture(session.system)
    assert picture.pool is not None and (picture.pool.gpus, picture.pool.gpus_busy) == (2, 2)
    (row,) = [row for row in queue_rows(picture) if row["name"] == "behind"]
    begins_in_s = (row["predicted_start_at"] - picture.at).total_seconds()
    assert 15.0 < begins_in_s < 20.0, "when the wide one ends"
    text = printed(picture)
    assert "profiler" in text and session.ids["a"] in text


def test_top_shows_a_pair_and_how_fast_it_goes(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    for _ in range(30):
        session.run_pass()
    picture = take_picture(session.system)
    (pair,) = pair_rows(picture)
    assert (pair["first_job_id"], pair["state"]) == (session.ids["long"], "doing well")
    assert 0.9 < pair["speed_frac"][session.ids["long"]] < 1.0
    assert f"{session.ids['long']} + {session.ids['short']}" in printed(picture), "both on one GPU"


def test_starts_are_predicted_with_an_interval_and_pairs_free_their_gpus_once(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    session.run_pass()
    session.cluster.jobs["third"] = ScriptedJob("third")
    session.submit("third")
    session.take_in()
    for name, low_s, duration_s, high_s in (("long", 150.0, 200.0, 260.0), ("short", 80.0, 100.0, 400.0)):
        estimate = Estimate(duration_s, "test", low_s, high_s, 0.8)
        store.jobs.annotate(session.ids[name], who="t", why="t", now=session.clock.now(), estimate=estimate)
    now, queue = session.clock.now(), store.queue.view()
    nodes = session.cluster.inventory().nodes
    (start,) = predicted_starts(queue, [session.ids["third"]], nodes, now).values()
    long_started, short_started = session.job("long").started_at, session.job("short").started_at
    assert long_started is not None and short_started is not None
    assert start.at == long_started + timedelta(seconds=200)
    assert start.low_at == long_started + timedelta(seconds=150)
    assert start.high_at == short_started + timedelta(seconds=400), "when the last of the two has ended"


def test_nobody_is_told_a_start_that_hangs_on_a_job_that_has_outrun_its_estimate(store: Store, tmp_path: Path) -> None:
    jobs = [ScriptedJob(name, work_s=60.0) for name in ("runs", "next", "after")]
    session = Session.open(tmp_path, store, (("n1", 1, "train"),), jobs, modes={"pack": "off"})
    session.submit("runs")
    session.run_until(lambda: session.job("runs").state is JobState.RUNNING, most=5)
    now = session.clock.now()
    store.jobs.annotate(session.ids["runs"], who="t", why="t", now=now, estimate=Estimate(10.0, "test", low_s=5.0))
    session.submit("next", "after")
    for _ in range(20):
        session.run_pass()
    picture = take_picture(session.system)
    assert [job.spec.name for job in picture.order] == ["next", "after"]
    assert [picture.starts[session.ids[name]].at for name in ("next", "after")] == [None, None]


def test_among_equals_the_one_that_came_first_goes_first(store: Store, tmp_path: Path) -> None:
    names = [f"job-{number:02d}" for number in range(12)]
    jobs = [ScriptedJob(name, work_s=30.0) for name in names]
    session = Session.open(tmp_path, store, (("n1", 1, "train"),), jobs, modes={"pack": "off"})
    for name in names:
        session.submit(name)
        session.take_in()
        session.clock.sleep(0.01)
    for _ in range(2):
        session.run_pass()
    assert [job.spec.name for job in take_picture(session.system).order] == names[1:]
