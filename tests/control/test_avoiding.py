"""A job's nodes to avoid reach the policy, and survive the record of what it saw (R-19)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from lucid_pipelines import policies
from lucid_pipelines.control.exits import nodes_to_avoid
from lucid_pipelines.control.facts import FactMemory, queued_job
from lucid_pipelines.control.recording import queued_from_json, queued_to_json
from lucid_pipelines.domain.decision import Start
from lucid_pipelines.domain.job import Job, JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.failures.evidence import Suspect
from lucid_pipelines.failures.policy import RestartDecision, RestartVerb, Standing
from tests.support_policies.views import spec, view_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Job(
    "j1", JobSpec("train", "ada", "a", 2, ("true",)), JobState.QUEUED, NOW, NOW, 1, avoid_nodes=("a/0", "elsewhere")
)


def test_the_live_pass_places_a_restarted_job_off_the_node_where_it_failed() -> None:
    seen = queued_job(JOB, "a", FactMemory())
    assert seen.avoid_nodes == ("a/0", "elsewhere")
    read = queued_from_json(json.loads(json.dumps(queued_to_json(seen))))
    assert read == seen
    for waiting in (seen, read):
        decisions = policies.get("lucid").decide(view_of(spec(2), [waiting]))
        (start,) = [d for d in decisions if isinstance(d, Start)]
        assert start.placement.node_names == ("a/1",)


def test_a_job_is_kept_off_the_node_of_a_gpu_that_nothing_else_keeps_it_off() -> None:
    bad, worse = Suspect("n1", 3), Suspect("n2")
    restart = RestartDecision(RestartVerb.RESTART, Standing.ACT, "R14", avoid=(bad, worse))
    assert nodes_to_avoid(restart, []) == ["n1", "n2"]
    assert nodes_to_avoid(restart, [bad]) == ["n2"]
