"""After a restart: did the job really go on from its checkpoint (R-32)? If not, it is stopped, as the mode allows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from lucid_pipelines.control.failure_facts import RESTART, STOP
from lucid_pipelines.control.notices import Occasion, tell
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, NotFoundError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.failures.facts import Checkpoint
from lucid_pipelines.failures.resume import ResumeCheck, ResumeState, check_resume
from lucid_pipelines.logs import Extent
from lucid_pipelines.store import Action, ActionState, ActiveAttempt
from lucid_pipelines.tracker.attempt_log import AttemptLog
from lucid_pipelines.tracker.follow import follow
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import track_extent

WHO = "failure_handler"
_HEAD_BYTES = 64 * 1024
_ENOUGH_READINGS = 2
_COMPARABLE_FROM = 0.5
"""A checkpoint's number counts steps as the log does if it is at least this share of the last step that was printed:
a number of an epoch is far below."""


def check_resumes(system: System, active: Sequence[ActiveAttempt]) -> list[tuple[str, ResumeCheck]]:
    """Look at every attempt that a restart began and that has not been judged yet.

    Returns:
        Attempts of which something is certain now, with what it is.
    """
    waiting = {
        action.target: action
        for action in system.store.actions.find(kind=RESTART, states=[ActionState.EXECUTED], scored=False, limit=500)
        if action.payload.get("checkpoint_step") is not None
    }
    found: list[tuple[str, ResumeCheck]] = []
    for item in active:
        action = waiting.get(item.job.job_id)
        if action is None or item.attempt.started_at is None or _previous(system, item.attempt) is None:
            continue
        try:
            verdict = _check(system, item.attempt, action)
        except (ExternalError, NotFoundError):
            continue  # cannot be read now: nothing is concluded
        if verdict.state is ResumeState.WAITING:
            continue
        if verdict.must_stop:
            _stop(system, item.attempt, verdict)
        system.store.actions.score(
            action.action_id, {"resume": verdict.state.value, "why": verdict.why}, now=system.clock.now()
        )
        found.append((item.attempt.attempt_id, verdict))
    return found


def _check(system: System, attempt: Attempt, action: Action) -> ResumeCheck:
    step = int(action.payload["checkpoint_step"])
    restarted_at, now = attempt.started_at or attempt.placed_at, system.clock.now()
    checkpoint = Checkpoint(str(action.payload.get("checkpoint")), step, True, restarted_at)
    steps = _first_steps(system, attempt)
    if len(steps) < _ENOUGH_READINGS:
        return check_resume(checkpoint, None, restarted_at, now)
    verdict = check_resume(checkpoint, int(steps[0]), restarted_at, now, slack_steps=_slack(steps))
    if verdict.must_stop and not _counts_alike(system, attempt, step):
        why = f"the log's steps and the checkpoint's number {step} may count different things"
        return ResumeCheck(ResumeState.UNKNOWN, why)
    return verdict


def _first_steps(system: System, attempt: Attempt) -> list[float]:
    """The first steps that the attempt's log shows, oldest first."""
    head = AttemptLog(system.cluster, attempt.attempt_id).read_at(0, _HEAD_BYTES)
    whole = head[: head.rfind(b"\n") + 1]
    tracked = track_extent(Extent(len(whole), whole, whole, 0, 0))
    return _steps(tracked.progress)


def _steps(progress: Progress) -> list[float]:
    joined = 0.0
    if progress.global_step is not None and progress.step is not None:
        joined = float(progress.global_step - progress.step)
    return [sample.step + joined for sample in progress.samples]


def _slack(steps: Sequence[float]) -> int:
    """A log may print the last finished step, or one a report before."""
    strides = [b - a for a, b in pairwise(steps) if b > a]
    return max(1, round(median(strides))) if strides else 1


def _counts_alike(system: System, attempt: Attempt, checkpoint_step: int) -> bool:
    """Whether the attempt before printed steps of the same kind as the checkpoint's number: up to it, and not far
    beyond, without beginning again.
    """
    before = _previous(system, attempt)
    if before is None:
        return False
    steps = _steps(follow(AttemptLog(system.cluster, before.attempt_id)).progress)
    if not steps or any(b < a for a, b in pairwise(steps)):
        return False
    return _COMPARABLE_FROM * steps[-1] <= checkpoint_step <= steps[-1] * 1.05 + 1


def _previous(system: System, attempt: Attempt) -> Attempt | None:
    earlier = [a for a in system.store.attempts.of_job(attempt.job_id) if a.number < attempt.number]
    return earlier[-1] if earlier else None


def _stop(system: System, attempt: Attempt, verdict: ResumeCheck) -> None:
    """Report it; stop the attempt if restarts are live, ask if they wait for approval."""
    now, mode = system.clock.now(), system.settings.modes.restart
    why = f"it did not resume from its checkpoint: {verdict.why}"
    is_new = True
    if mode is not Mode.OFF:
        payload: dict[str, object] = {"attempt_id": attempt.attempt_id, "not_before": None, "lapses_at": None}
        _, is_new = system.store.actions.propose(
            STOP, attempt.job_id, mode, payload, why=why, now=now, key=f"stop-resume:{attempt.attempt_id}"
        )
    if is_new:
        system.store.jobs.annotate(attempt.job_id, who=WHO, why=why, now=now)
    facts = {"job": attempt.job_id, "attempt": str(attempt.number), "mode": mode.value}
    tell(system, Occasion.FAILURE, f"resume:{attempt.attempt_id}", f"{attempt.job_id}: {why}", why, facts)
