"""From an abnormal exit to a diagnosis, and to what the mode allows: the injected ECC error, the crash, approvals."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import Cause, JobState, Mode, Outcome
from lucid_pipelines.store import ActionState
from tests.support_control.worlds import all_ended, drive, make_client
from tests.support_layout.staged import ROOT

BAD_NODE = [
    {"name": "node-1", "gpus": 4, "vc": "vision", "failing_checks": ["nvidia-smi", "dcgmi-diag-2"]},
    {"name": "node-2", "gpus": 4, "vc": "nlp"},
]
CLUSTER = {"gpus": "virtual", "nodes": BAD_NODE, "sample_interval_s": 1.0}
QUICK_RESTART = {"backoff_base_s": 0.0}


def opened(folder: Path, mode: str) -> Client:
    modes = {"restart": mode, "isolate": mode}
    return make_client(folder / "home", cluster=CLUSTER, modes=modes, recovery=QUICK_RESTART)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The examples, copied: what a job writes must not land in the repository."""
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples"))


def submit_ecc(client: Client, example: Path) -> Job:
    command = [sys.executable, "train.py", "--epochs", "4", "--seconds", "2"]
    env = {"OMP_NUM_THREADS": "1"}
    return client.submit(command, source_dir=example / "ecc", vc="vision", env=env, user="cedar").job


def ended_for_good(jobs: list[Job]) -> bool:
    return all(job.state is JobState.COMPLETED for job in jobs)


@pytest.mark.slow
def test_live_an_ecc_error_is_diagnosed_isolated_and_the_job_finishes_elsewhere(tmp_path: Path, example: Path) -> None:
    with opened(tmp_path, "live") as client:
        job = submit_ecc(client, example)
        (ended,) = drive(client, ended_for_good, [job.job_id], timeout_s=60)
        first, second = client.attempts(job.job_id)

        assert first.outcome in (Outcome.FAILED_UNKNOWN, Outcome.FAILED_INFRASTRUCTURE)
        (reason,) = client.system.store.nodes.isolated()
        assert (reason.node, reason.owner) == ("node-1", "lucid") and reason.deadline is not None
        bad = {(s.node, g) for s in first.placement.shares for g in s.gpu_indices}
        good = {(s.node, g) for s in second.placement.shares for g in s.gpu_indices}
        assert not bad & good, "the second attempt ran on other hardware"
        assert ended.restart_count == 1
        log = client.read_log(second.attempt_id, 0).data.decode()
        assert "resum" in log.lower(), "it went on from its checkpoint"
        page = client.settings.jobs / job.job_id / "attempts" / "1" / "failure.md"
        assert "ECC" in page.read_text()


@pytest.mark.slow
def test_approve_nothing_is_done_before_a_person_says_yes(tmp_path: Path, example: Path) -> None:
    with opened(tmp_path, "approve") as client:
        job = submit_ecc(client, example)
        (failed,) = drive(client, all_ended, [job.job_id], timeout_s=60)
        drive(client, lambda jobs: client.system.store.exits.pending() == (0, None), [job.job_id])
        failed = client.job(job.job_id)
        assert (failed.state, failed.outcome, failed.cause) == (
            JobState.FAILED,
            Outcome.FAILED_INFRASTRUCTURE,
            Cause.INFRASTRUCTURE,
        )
        actions = client.system.store.actions.find(states=[ActionState.PROPOSED])
        assert {action.kind for action in actions} == {"restart", "isolate"}
        assert client.system.store.nodes.isolated() == []
        for action in actions:
            now = client.system.clock.now()
            client.system.store.actions.decide(action.action_id, approve=True, person="ada", now=now)
        drive(client, ended_for_good, [job.job_id], timeout_s=60)
        executed = client.system.store.actions.find(states=[ActionState.EXECUTED])
        assert {(action.kind, action.person) for action in executed} == {("restart", "ada"), ("isolate", "ada")}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Client]:
    with opened(tmp_path, "live") as client:
        yield client


def test_a_crash_of_the_users_own_is_reported_and_never_restarted(live: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(
        "print('epoch 1 step 10 loss 2.31')\nimport numpy as np\nnp.zeros((3, 4)) @ np.zeros((5, 6))\n"
    )
    job = live.submit([sys.executable, "train.py"], source_dir=source, vc="nlp").job
    drive(live, all_ended, [job.job_id])
    drive(live, lambda jobs: live.system.store.exits.pending() == (0, None), [job.job_id])
    ended = live.job(job.job_id)
    assert (ended.state, ended.outcome, ended.cause) == (JobState.FAILED, Outcome.FAILED_USER, Cause.USER)
    assert "matmul" in (ended.detail or "") or "ValueError" in (ended.detail or "")
    assert live.system.store.actions.find() == [] and ended.attempt_count == 1


def test_a_job_that_says_never_is_never_restarted(live: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    text = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    (source / "train.py").write_text(f"print('epoch 1 step 10 loss 2.31')\nprint({text!r})\nraise SystemExit(1)\n")
    job = live.submit([sys.executable, "train.py"], source_dir=source, vc="vision", never_restart=True).job
    drive(live, all_ended, [job.job_id])
    drive(live, lambda jobs: live.system.store.exits.pending() == (0, None), [job.job_id])
    assert live.system.store.actions.find(kind="restart") == []
    assert live.job(job.job_id).state is JobState.FAILED


def test_an_approval_that_comes_too_late_does_nothing(live: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    job = live.submit([sys.executable, "-c", "raise SystemExit(1)"], source_dir=source, vc="nlp").job
    drive(live, all_ended, [job.job_id])
    actions, now = live.system.store.actions, live.system.clock.now()
    (attempt,) = live.attempts(job.job_id)
    payload = {"attempt_id": attempt.attempt_id, "lapses_at": (now - timedelta(seconds=1)).isoformat()}
    action, _ = actions.propose("restart", job.job_id, Mode.APPROVE, payload, why="asked", now=now)
    with pytest.raises(StateError, match="lapsed at"):
        actions.decide(action.action_id, approve=True, person="ada", now=now)
    assert carry_out_due(live.system) == []
    assert live.job(job.job_id).state is JobState.FAILED


@pytest.mark.slow
def test_an_approved_restart_runs_elsewhere_also_when_no_test_could_tell(tmp_path: Path) -> None:
    nodes = [{"name": "node-1", "gpus": 4, "vc": "vision"}, {"name": "node-2", "gpus": 4, "vc": "vision"}]
    cluster = {"gpus": "virtual", "nodes": nodes, "sample_interval_s": 1.0}
    modes = {"restart": "approve", "isolate": "approve"}
    source = tmp_path / "source"
    source.mkdir()
    text = "[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
    (source / "train.py").write_text(f"print('epoch 1 step 10 loss 2.31')\nprint({text!r})\nraise SystemExit(1)\n")
    with make_client(tmp_path / "home", cluster=cluster, modes=modes, recovery=QUICK_RESTART) as client:
        job = client.submit([sys.executable, "train.py"], source_dir=source, vc="vision", gpus=2).job
        drive(client, all_ended, [job.job_id], timeout_s=60)
        drive(client, lambda jobs: client.system.store.exits.pending() == (0, None), [job.job_id])
        (action,) = client.system.store.actions.find(states=[ActionState.PROPOSED])
        now = client.system.clock.now()
        client.system.store.actions.decide(action.action_id, approve=True, person="ada", now=now)
        drive(client, lambda jobs: len(client.attempts(job.job_id)) > 1, [job.job_id], timeout_s=60)
        first, second = client.attempts(job.job_id)
        assert action.payload["avoid_nodes"] == [first.placement.shares[0].node]
        assert {share.node for share in first.placement.shares}.isdisjoint(s.node for s in second.placement.shares)
