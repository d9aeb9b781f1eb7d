"""The advise step: what past jobs with similar code say of a new one (SchedMate paper, sections 8, 12 and 18).

Advice is asked for within a time box, for one job and for a whole batch; whatever is slow, broken or hostile costs
only the advice. Every piece of it is kept before its job runs, and held against the outcome once the job has ended;
the same step puts the job into the history, with how it ended, for those that come after it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucid_pipelines.control.sampling import is_known
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.job import Job, Profile
from lucid_pipelines.domain.states import Mode, Outcome
from lucid_pipelines.store import AdviceRow, AdviceVerdict, EndedAdvice

if TYPE_CHECKING:
    from lucid_pipelines.advisor.advising import Advice
    from lucid_pipelines.advisor.fingerprint import Fingerprint
    from lucid_pipelines.control.live_advisor import LiveAdvisor
    from lucid_pipelines.control.system import System

_log = logging.getLogger(__name__)
OFF, NO_CODE, OUT_OF_TIME, FAILED = "advisor_off", "no_code", "batch_out_of_time", "advisor_failed"
LEARNED_AT_ONCE = 200
LEAST_JOBS_FOR_A_PROFILE = 2
_READER_VERSION = 1
"""Raised when reading the same code may give another answer: then what was read before is not taken again."""


def advise(system: System, job: Job, code: Path) -> AdviceRow | None:
    """Ask for advice on a job whose code is unpacked. ``None`` when advice is switched off.

    Never raises for what is wrong with the code, the history or the advisor: the row says what it was.
    """
    mode = system.settings.modes.advise
    if system.advisor is None or mode is Mode.OFF:
        return None
    earlier = system.store.advice.of_job(job.job_id)
    if earlier is not None:
        return earlier  # a batch that died had asked
    started = time.monotonic()
    try:
        row = _ask(system, system.advisor, job, code, mode)
    except Exception as error:  # noqa: BLE001  an advisor reads code that anybody may have written
        _log.exception("the advisor failed for %s", job.job_id)
        row = _empty(system, job, mode, FAILED, str(error) or type(error).__name__)
    system.advisor.spend(time.monotonic() - started)
    return row


def keep(system: System, row: AdviceRow) -> None:
    """Store advice, before the job can start."""
    system.store.advice.record(row)
    system.store.counters.add(f"advice_{row.basis}", now=row.made_at)


def advised_profile(system: System, job: Job, *, is_profiled: bool) -> Profile | None:
    """The profile of similar jobs, where it may take the place of a profiling run (mode ``skip_profiling``).

    Args:
        is_profiled: whether the job would be profiled without it.
    """
    mode = system.settings.modes.skip_profiling
    if mode is Mode.OFF or system.advisor is None:
        return None
    row = system.store.advice.of_job(job.job_id)
    if row is None or row.estimate is None or row.profile is None or not is_known(row.profile):
        return None
    if row.profile.sample_count < LEAST_JOBS_FOR_A_PROFILE:
        return None
    if is_profiled:
        rules = system.policy.profiling
        saved_gpu_s = None if rules is None or mode is not Mode.LIVE else job.spec.gpus * rules.profile_window_s
        system.store.advice.note_skip(job.job_id, mode.value, saved_gpu_s)
        system.store.counters.add(f"profiling_skipped_{mode.value}", now=system.clock.now())
    return row.profile if mode is Mode.LIVE else None


def learn_ended(system: System, limit: int = LEARNED_AT_ONCE) -> int:
    """Put jobs that have ended into the history, and hold what was said of them against how they ended.

    Safe to run twice and to die in. Returns how many were settled.
    """
    if system.advisor is None:
        return 0
    ended = system.store.advice.ended_unlearned(limit)
    if not ended:
        return 0
    try:
        past = [job for job in (past_job(each) for each in ended) if job is not None]
        if past:
            system.advisor.opened.learn(past)
    except LucidError as error:
        _log.warning("the history index takes no jobs now: %s", error)
        system.store.counters.add("advice_learning_put_off", now=system.clock.now())
        return 0
    system.store.advice.settle([verdict_of(each) for each in ended], now=system.clock.now())
    return len(ended)


def past_job(ended: EndedAdvice) -> Any:
    """A job that has ended as evidence for others; ``None`` when it never ran or its code was not read.

    Only one undisturbed run on its own GPUs tells how long such a job takes.
    """
    from lucid_pipelines.domain.similarity import PastJob

    run, mark, job = ended.run, ended.advice.mark, ended.job
    if run is None or mark is None:
        return None
    is_whole = ended.main_runs <= 1 and not run.packed
    profile = run.profile if not run.packed else None
    return PastJob(
        job_id=job.job_id,
        fingerprint=str(mark["text"]),
        submitted_at=job.submitted_at,
        ended_at=run.ended_at,
        outcome=job.outcome or run.outcome,
        duration_s=run.duration_s if is_whole else None,
        task_type=mark.get("task_type"),
        gpu_type=mark.get("gpu_type"),
        gpus=job.spec.gpus,
        profile=profile,
        software=tuple(sorted((str(name), str(value)) for name, value in (mark.get("software") or {}).items())),
    )


def verdict_of(ended: EndedAdvice) -> AdviceVerdict:
    """How the advice for a job fared."""
    from lucid_pipelines.advisor.estimates import Fallback
    from lucid_pipelines.advisor.scoring import score

    row, run = ended.advice, ended.run
    outcome = ended.job.outcome or Outcome.LOST
    whole_s = run.duration_s if run is not None and ended.main_runs <= 1 and not run.packed else None
    fallback = None if row.estimate is not None or row.basis not in set(Fallback) else Fallback(row.basis)
    found = score(row.estimate, fallback, outcome, whole_s)
    return AdviceVerdict(
        row.job_id,
        found.verdict.value,
        whole_s if outcome.teaches_duration else None,
        found.relative_error,
        found.residual,
        found.within,
    )


# ---------------------------------------------------------------------- asking


def _ask(system: System, live: LiveAdvisor, job: Job, code: Path, mode: Mode) -> AdviceRow:
    if job.spec.snapshot_digest is None:
        return _empty(system, job, mode, NO_CODE, "the job was submitted without code")
    if live.time_left_s <= 0:
        return _empty(system, job, mode, OUT_OF_TIME, "other jobs of the same batch took all of its time")
    gpu_type = gpu_type_of(system, job)
    key = _reading_key(system, job, gpu_type)
    known = system.store.advice.mark_of_reading(key)
    now = system.clock.now()
    if known is not None:
        started, cpu = time.monotonic(), time.process_time()
        advised, similar = live.opened.look_up(_mark_from_json(known), now, frozenset({job.job_id}))
        del similar
        spent = (time.process_time() - cpu, 0.0, time.monotonic() - started)
        return _row(system, job, mode, key, known, advised, spent)
    advice = _read(system, live, job, code, gpu_type)
    mark = None if advice.fingerprint is None else _mark_to_json(advice.fingerprint, advice)
    spent = (advice.cost.cpu_s, advice.cost.gpu_s, advice.wall_s)
    return _row(system, job, mode, key, mark, advice.advised, spent)


def _read(system: System, live: LiveAdvisor, job: Job, code: Path, gpu_type: str | None) -> Advice:
    from lucid_pipelines.advisor.description import LaunchDescription
    from lucid_pipelines.advisor.fingerprint import Surroundings

    spec = job.spec
    launch = LaunchDescription(spec.command, dict(spec.env), spec.workdir, spec.gpus)
    around = Surroundings(gpu_type, spec.gpus)
    left_s = min(live.time_box_s, live.time_left_s)
    return live.opened.advise(code, launch, system.clock.now(), around, frozenset({job.job_id}), left_s)


def gpu_type_of(system: System, job: Job) -> str | None:
    """The GPU type that a job will get, where its virtual cluster has one only."""
    nodes = system.cluster.inventory().nodes
    types = {gpu.gpu_type for node in nodes if node.vc == job.spec.vc for gpu in node.gpus}
    return types.pop() if len(types) == 1 else None


def _reading_key(system: System, job: Job, gpu_type: str | None) -> str:
    from lucid_pipelines.advisor.fingerprint import SCHEMA_VERSION

    spec = job.spec
    asks = system.settings.advisor.ask_language_model
    parts = [_READER_VERSION, SCHEMA_VERSION, spec.snapshot_digest, spec.command, spec.env, spec.workdir, spec.gpus]
    return hashlib.sha256(json.dumps([*parts, gpu_type, asks]).encode()).hexdigest()


def _mark_to_json(mark: Fingerprint, advice: Advice) -> dict[str, Any]:
    return {**asdict(mark), "software": _software(advice)}


def _mark_from_json(data: Mapping[str, Any]) -> Fingerprint:
    from lucid_pipelines.advisor.fingerprint import Fingerprint

    return Fingerprint(data["text"], data["known_frac"], data["task_type"], data["gpu_type"], data["gpus"])


def _software(advice: Advice) -> dict[str, str]:
    from lucid_pipelines.advisor.metadata import FieldName

    metadata = advice.metadata
    if metadata is None:
        return {}
    found = {str(metadata.value(FieldName.FRAMEWORK)): metadata.text(FieldName.FRAMEWORK_VERSION)}
    found["cuda"] = metadata.text(FieldName.CUDA_VERSION)
    return {name: version for name, version in found.items() if version is not None}


def _row(
    system: System,
    job: Job,
    mode: Mode,
    key: str,
    mark: Mapping[str, Any] | None,
    advised: Any,
    spent: tuple[float, float, float],
) -> AdviceRow:
    basis = advised.estimate.basis if advised.estimate is not None else advised.fallback.value
    cpu_s, gpu_s, wall_s = spent
    return AdviceRow(
        job_id=job.job_id,
        made_at=system.clock.now(),
        mode=mode.value,
        basis=basis,
        detail=advised.detail,
        reading_key=key,
        mark=mark,
        estimate=advised.estimate,
        profile=advised.profile,
        similar=tuple(_similar(item) for item in advised.evidence),
        cpu_s=cpu_s,
        gpu_s=gpu_s,
        wall_s=wall_s,
    )


def _similar(item: Any) -> dict[str, Any]:
    job = item.job
    return {
        "job_id": job.job_id,
        "similarity": round(item.similarity, 4),
        "weight": round(item.weight, 4),
        "unused": None if item.unused is None else item.unused.value,
        "outcome": job.outcome.value,
        "duration_s": job.duration_s,
        "gpu_type": job.gpu_type,
        "gpus": job.gpus,
        "software": dict(job.software),
        "ended_at": job.ended_at.isoformat(),
    }


def _empty(system: System, job: Job, mode: Mode, basis: str, detail: str) -> AdviceRow:
    return AdviceRow(job.job_id, system.clock.now(), mode.value, basis, detail)
