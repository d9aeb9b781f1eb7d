"""From one list of jobs, and what lies on the disk, to what may be said of many attempts (``slurm_states.py``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import Observation, Sight
from lucid_pipelines.resources.clusters import holder, wrapper
from lucid_pipelines.resources.clusters.layout import Layout, checked_id
from lucid_pipelines.resources.clusters.records import exit_record
from lucid_pipelines.resources.clusters.slurm_accounting import SlurmAccounting
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob
from lucid_pipelines.resources.clusters.slurm_states import OnDisk, asks_slurm, is_over, observation, own_stop
from lucid_pipelines.resources.clusters.slurm_submissions import OUTPUT, KnownJobs, read_submission
from lucid_pipelines.resources.clusters.slurm_view import SlurmView
from lucid_pipelines.resources.clusters.start_records import read_record, read_started

_LAST_WORDS_BYTES, _LAST_WORDS_CHARS = 64 * 1024, 500


class SlurmFollowing:
    """Looks at attempts, and remembers what need not be read again."""

    def __init__(self, view: SlurmView, layout: Layout) -> None:
        self._view = view
        self._layout = layout
        self._accounting = SlurmAccounting(view.commands)
        self._started: dict[str, datetime] = {}
        self._unsettled: dict[str, datetime] = {}

    def poll(self, attempt_ids: Sequence[str], now: datetime) -> Mapping[str, Observation]:
        """One command for all of them."""
        fault = None
        jobs: list[SlurmJob] = []
        if attempt_ids:
            try:
                jobs = self._view.jobs()
            except ExternalError as error:
                fault = str(error)
        known = KnownJobs.of(jobs)
        disks = {attempt_id: self._on_disk(checked_id(attempt_id)) for attempt_id in attempt_ids}
        found = {one: known.find(one, disk.submission, disk.owner_uid) for one, disk in disks.items()}
        faults = dict.fromkeys(disks, fault)
        if fault is None:
            self._ask_accounting(disks, found, faults)
        seen: dict[str, Observation] = {}
        for attempt_id, disk in disks.items():
            waited = self._awaiting_record(attempt_id, disk, found[attempt_id], now)
            seen[attempt_id] = observation(attempt_id, disk, found[attempt_id], faults[attempt_id], now, waited)
            if seen[attempt_id].sight is Sight.EXITED:
                self._layout.unmark_live(attempt_id)
                self._unsettled.pop(attempt_id, None)
        return seen

    def _awaiting_record(self, attempt_id: str, disk: OnDisk, job: SlurmJob | None, now: datetime) -> timedelta:
        """How long disk and Slurm have disagreed about an end, by our own clock: theirs may be wrong."""
        if job is None or (is_over(job) if disk.exit is None else not is_over(job)):
            return now - self._unsettled.setdefault(attempt_id, now)
        self._unsettled.pop(attempt_id, None)
        return timedelta(0)

    def _ask_accounting(
        self, disks: Mapping[str, OnDisk], found: dict[str, SlurmJob | None], faults: dict[str, str | None]
    ) -> None:
        """Fill in how jobs ended that the controller has forgotten."""
        forgotten = {
            one: disk.submission
            for one, disk in disks.items()
            if found[one] is None and disk.submission is not None and asks_slurm(disk)
        }
        accounted = self._accounting.ended({noted.job_id for noted in forgotten.values()})
        for attempt_id, noted in forgotten.items():
            job = accounted.jobs.get(noted.job_id)
            if job is not None and noted.is_it(job):
                found[attempt_id] = job
            else:
                faults[attempt_id] = accounted.fault

    def _on_disk(self, attempt_id: str) -> OnDisk:
        folder = self._layout.attempts / attempt_id
        try:
            raw = read_record(folder, wrapper.EXIT)
            if raw is not None:
                self._started.pop(attempt_id, None)
                disk = OnDisk(True, exit_record(raw), own_stop(raw) or raw.get("started_at") is None)
                if not asks_slurm(disk):
                    return disk
                return replace(disk, owner_uid=folder.stat().st_uid, submission=read_submission(folder))
            if attempt_id not in self._started:
                started = read_started(folder)
                if started is not None:
                    self._started[attempt_id] = started.started_at
            known = self._layout.find(attempt_id)
            if known is None:
                return OnDisk(is_placed=False)
            owner = known.stat().st_uid  # a folder that has gone away says nothing
            noted, stopped = read_submission(known), os.path.lexists(known / wrapper.STOP)
            adopted = noted is not None and noted.adopted_output is not None
            return OnDisk(
                is_placed=True,
                started_at=self._started.get(attempt_id),
                is_adopted=adopted,
                is_stopped=stopped,
                is_gone=noted is not None and noted.is_shared and os.path.lexists(known / holder.GONE),
                owner_uid=owner,
                submission=noted,
                last_words="" if attempt_id in self._started or adopted else _last_words(known),
            )
        except (OSError, ValueError) as error:
            return OnDisk(True, problem=f"cannot be observed: {error}")


def _last_words(folder: Path) -> str:
    """Why no wrapper came to life, e.g. a Python that is missing or too old; empty as long as all is well."""
    try:
        said = wrapper.read_bytes(str(folder / OUTPUT), _LAST_WORDS_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    return " ".join(said.split())[-_LAST_WORDS_CHARS:]
