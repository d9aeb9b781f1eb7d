"""Execute intents: the only place from which the control loop touches the world.

An intent may be executed again after a crash; every call behind it is idempotent by attempt id.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from lucid_pipelines.control.adopting import adopted_key
from lucid_pipelines.control.intake import code_dir, job_dir
from lucid_pipelines.control.observing import end_failed_launch
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError, StaleLockError, UnreachableError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import AttemptState
from lucid_pipelines.ports import LaunchRequest
from lucid_pipelines.store import Claim, Intent, IntentKind

_log = logging.getLogger(__name__)
WHO = "dispatcher"
_CLAIM_TTL_S = 60.0
_BATCH = 32
_AT_ONCE = 6
_BACKOFF_S = (1.0, 5.0, 15.0, 30.0)
_MUST_HAPPEN = frozenset({IntentKind.STOP, IntentKind.FENCE})
"""Never given up: a job that its user cancelled would run on. The end of the attempt voids a stop."""


class _Fate(Enum):
    DONE = "done"
    PUT_OFF = "put_off"
    GIVEN_UP = "given_up"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """How many intents were done, put off and given up."""

    done: int = 0
    put_off: int = 0
    given_up: int = 0

    @classmethod
    def of(cls, fates: Iterable[_Fate]) -> DispatchReport:
        counts = Counter(fates)
        return cls(counts[_Fate.DONE], counts[_Fate.PUT_OFF], counts[_Fate.GIVEN_UP])


def dispatch(system: System, worker: str) -> DispatchReport:
    """Execute every intent whose time has come, several at once: a launch takes as long as its process to start."""
    claims = system.store.intents.claim(worker=worker, now=system.clock.now(), limit=_BATCH, ttl_s=_CLAIM_TTL_S)
    if len(claims) <= 1:
        return DispatchReport.of(_carry_out(system, claim) for claim in claims)
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(claims))) as pool:
        return DispatchReport.of(pool.map(lambda claim: _carry_out(system, claim), claims))


def _carry_out(system: System, claim: Claim[Intent]) -> _Fate:
    """One intent must never keep the others from being carried out, whatever happens to it."""
    try:
        return _try(system, claim)
    except StaleLockError:
        # The attempt ended meanwhile, which voids its intents, or the claim ran out; either way it is not ours.
        system.store.counters.add("intents_stale", now=system.clock.now())
        return _Fate.STALE


def _try(system: System, claim: Claim[Intent]) -> _Fate:
    intent = claim.item
    try:
        _execute(system, intent)
    except StaleLockError:
        raise
    except ExternalError as error:
        failed: Exception = error
        may_help = True
    except LucidError as error:
        failed = error
        may_help = intent.kind in _MUST_HAPPEN
    except Exception as error:  # noqa: BLE001 a defect of ours: seen, counted, and kept to this one intent
        _log.exception("intent %s broke", intent.key)
        system.store.counters.add("intents_broken", now=system.clock.now())
        failed = error
        may_help = True
    else:
        system.store.intents.complete(claim, now=system.clock.now())
        return _Fate.DONE
    # A machine that does not answer says nothing of the launch, which may have been made: it is asked until it does.
    may_be_spent = intent.kind is IntentKind.LAUNCH and not isinstance(failed, UnreachableError)
    is_spent = may_be_spent and claim.tries >= system.settings.scheduling.max_launch_tries
    if is_spent or not may_help:
        return _give_up(system, claim, failed)
    return _put_off(system, claim, failed)


def _put_off(system: System, claim: Claim[Intent], error: Exception) -> _Fate:
    delay_s = _BACKOFF_S[min(claim.tries, len(_BACKOFF_S)) - 1]
    system.store.intents.retry_later(claim, now=system.clock.now(), delay_s=delay_s, error=_told(error))
    return _Fate.PUT_OFF


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
            env={**dict(job.spec.env), **sharing_env(system, attempt)},
            placement=attempt.placement,
            job_dir=job_dir(system, job.job_id),
            code_dir=code_dir(system, job.job_id),
            workdir=job.spec.workdir,
            grace_s=job.spec.grace_s,
            user=job.spec.user,
            adopted=adopted_key(job.spec),
            declared_load=dict(job.spec.declared_load) or None,
        )
    )
    system.store.attempts.set_log_path(attempt_id, result.log_path, now=system.clock.now(), who=WHO)


def sharing_env(system: System, attempt: Attempt) -> dict[str, str]:
    """What lets a job share real GPUs as the site wants. A job without a partner gets it too: one may come."""
    if attempt.gpu_sharing != "mps":
        return {}
    return {"CUDA_MPS_PIPE_DIRECTORY": system.settings.packing.mps_pipe_dir}


def _give_up(system: System, claim: Claim[Intent], error: Exception) -> _Fate:
    """Trying again cannot help, or has been tried often enough: an attempt that cannot be launched ends here.

    That it was given up is written first: whoever finds the attempt after a crash in between ends it the same way.
    """
    result = {"error": _told(error), "is_users": isinstance(error, InputError), "tries": claim.tries}
    system.store.intents.complete(claim, now=system.clock.now(), result=result, failed=True)
    if claim.item.kind is IntentKind.LAUNCH:
        active = [i for i in system.store.queue.view().active if i.attempt.attempt_id == claim.item.attempt_id]
        try:
            for item in active:
                end_failed_launch(system, item)
        except ExternalError:
            # While it may still come to life its GPUs stay taken; every later pass tries to fence it.
            system.store.counters.add("fences_failed", now=system.clock.now())
    return _Fate.GIVEN_UP


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, LucidError) else f"{type(error).__name__}: {error}"


def _gpus(intent: Intent) -> list[int]:
    index = intent.payload.get("gpu_index")
    return [] if index is None else [int(index)]
