"""The period of retraining as a setting: predictions by models of their time, used by the replays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lucid_pipelines.domain.trace import ClusterSpec, TraceJob
from lucid_pipelines.tuning.measuring import measure
from lucid_pipelines.tuning.retraining import predictions_by_period
from lucid_pipelines.tuning.scenarios import scenarios_of
from lucid_pipelines.tuning.space import NEVER, RETRAIN, defaults_of, space_for
from tests.support_models.live import FAST
from tests.support_models.worlds import START, habits

DAY_S = 86_400.0
CLUSTER = ClusterSpec.uniform({"vc": 8})


@pytest.mark.slow
def test_each_period_predicts_every_job_without_its_future() -> None:
    jobs = [
        TraceJob(row.job_id, row.user, row.vc, row.name, row.gpus, row.submitted_at.timestamp(), row.duration_s or 0.0)
        for row in habits(300, days=5.0)
    ]
    begin_s = START.timestamp() + 2 * DAY_S
    found = predictions_by_period(jobs, begin_s, periods_days=(NEVER, 1.0), settings=FAST)
    later = {job.job_id for job in jobs if job.submit_s >= begin_s}
    assert set(found) == {NEVER, 1.0} and set(found[NEVER]) == set(found[1.0]) <= later
    assert len(found[1.0]) > 0.9 * len(later)
    assert found[NEVER] != found[1.0]

    # What is submitted and ends later changes no earlier prediction.
    edge_s = begin_s + 1.5 * DAY_S
    poisoned = [replace(job, duration_s=9e5, user="mallory") if job.submit_s >= edge_s else job for job in jobs]
    again = predictions_by_period(poisoned, begin_s, periods_days=(1.0,), settings=FAST)
    early = {job.job_id for job in jobs if job.submit_s < edge_s and job.submit_s + job.duration_s < edge_s}
    same = [job_id for job_id in early if job_id in again[1.0]]
    assert same and all(again[1.0][job_id] == found[1.0][job_id] for job_id in same)

    space = space_for(CLUSTER, [RETRAIN], retraining=True)
    given = scenarios_of([jobs], CLUSTER, unseen_days=1.0, pieces=1, warmup_days=2.0, predictions={7.0: found[1.0]})
    assert all(job.job_id in given.search[0].predictions[7.0] for job in given.search[0].jobs)
    assert measure(given.search[0], defaults_of(space))["unended_jobs"] == 0
