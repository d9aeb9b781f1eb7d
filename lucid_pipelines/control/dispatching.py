"""Execute intents: the only place from which the control loop touches the world.

An intent may be executed again after a crash; every call behind it is idempotent by attempt id.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lucid_pipelines.control.intake import code_dir, job_dir
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError, StaleLockError, StateError
from lucid_pipelines.domain.states import AttemptState, Cause, Outcome
from lucid_pipelines.ports import LaunchRequest
from lucid_pipelines.store import Claim, Intent, IntentKind

WHO = "dispatcher"
_CLAIM_TTL_S = 60.0
_BATCH = 64
_BACKOFF_S = (1.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """How many intents were done, put off and given up."""

    done: int = 0
    put_off: int = 0
    given_up: int = 0


def dispatch(system: System, worker: str) -> DispatchReport:
    """Execute every intent whose time has come."""
    claims = system.store.intents.claim(worker=worker, now=system.clock.now(), limit=_BATCH, ttl_s=_CLAIM_TTL_S)
    done = put_off = given_up = 0
    for claim in claims:
        if system.clock.now() >= claim.until - timedelta(seconds=_CLAIM_TTL_S / 2):
            break  # the rest is claimed again; better than working on a claim that runs out
        try:
            _execute(system, claim.item)
            system.store.intents.complete(claim, now=system.clock.now())
            done += 1
        except StaleLockError:
            system.store.counters.add("intents_stale", now=system.clock.now())
        except ExternalError as error:
            if claim.item.kind is IntentKind.LAUNCH and claim.tries >= system.settings.scheduling.max_launch_tries:
                _give_up_launch(system, claim, error)
                given_up += 1
            else:
                delay_s = _BACKOFF_S[min(claim.tries, len(_BACKOFF_S)) - 1]
                system.store.intents.retry_later(claim, now=system.clock.now(), delay_s=delay_s, error=str(error))
                put_off += 1
        except LucidError as error:
            _give_up(system, claim, error)
            given_up += 1
    return DispatchReport(done, put_off, given_up)


def _execute(system: System, intent: Intent) -> None:
    attempt_id = intent.attempt_id
    match intent.kind:
        case IntentKind.LAUNCH:
            assert attempt_id is not None
            _launch(system, attempt_id)
        case IntentKind.STOP:
            assert attempt_id is not None
            attempt = system.store.attempts.get(attempt_id)
            job = system.store.jobs.get(attempt.job_id)
            system.cluster.stop(attempt_id, job.spec.grace_s, attempt.stop_reason or "stopped")
        case IntentKind.FENCE:
            assert attempt_id is not None
            system.cluster.fence(attempt_id)
        case IntentKind.ISOLATE:
            system.cluster.isolate(
                intent.payload["node"],
                _gpus(intent),
                intent.payload["owner"],
                intent.payload.get("reason", ""),
            )
        case IntentKind.RESTORE:
            system.cluster.restore(intent.payload["node"], _gpus(intent), intent.payload["owner"])


def _launch(system: System, attempt_id: str) -> None:
    attempt = system.store.attempts.get(attempt_id)
    if attempt.state is AttemptState.ENDED:
        return
    job = system.store.jobs.get(attempt.job_id)
    result = system.cluster.launch(
        LaunchRequest(
            attempt_id=attempt_id,
            job_id=job.job_id,
            attempt_number=attempt.number,
            command=job.spec.command,
            env=dict(job.spec.env),
            placement=attempt.placement,
            job_dir=job_dir(system, job.job_id),
            code_dir=code_dir(system, job.job_id),
            workdir=job.spec.workdir,
            grace_s=job.spec.grace_s,
        )
    )
    system.store.attempts.set_log_path(attempt_id, result.log_path)


def _give_up_launch(system: System, claim: Claim[Intent], error: LucidError) -> None:
    attempt_id = claim.item.attempt_id
    assert attempt_id is not None
    system.cluster.fence(attempt_id)
    system.store.attempts.record_end(
        attempt_id,
        None,
        Outcome.CONTROL_PLANE_ERROR,
        who=WHO,
        now=system.clock.now(),
        cause=Cause.CONTROL_PLANE,
        why=f"could not be launched in {claim.tries} tries",
        detail=str(error),
    )
    _complete_failed(system, claim, error)


def _give_up(system: System, claim: Claim[Intent], error: LucidError) -> None:
    """The request itself is wrong; trying again cannot help."""
    if claim.item.kind is IntentKind.LAUNCH and claim.item.attempt_id is not None:
        is_users = isinstance(error, InputError)
        system.cluster.fence(claim.item.attempt_id)
        system.store.attempts.record_end(
            claim.item.attempt_id,
            None,
            Outcome.FAILED_USER if is_users else Outcome.CONTROL_PLANE_ERROR,
            who=WHO,
            now=system.clock.now(),
            cause=Cause.USER if is_users else Cause.CONTROL_PLANE,
            why="cannot be launched",
            detail=str(error),
        )
    _complete_failed(system, claim, error)


def _complete_failed(system: System, claim: Claim[Intent], error: LucidError) -> None:
    try:
        system.store.intents.complete(claim, now=system.clock.now(), result={"error": str(error)}, failed=True)
    except StateError:
        # The end of the attempt has voided its launch intent already.
        system.store.counters.add("intents_void", now=system.clock.now())


def _gpus(intent: Intent) -> list[int]:
    index = intent.payload.get("gpu_index")
    return [] if index is None else [int(index)]
