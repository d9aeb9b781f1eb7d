"""How attempts under Slurm are ended: asked to stop, or fenced so that they can never write again."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters import fencing, holder, wrapper
from lucid_pipelines.resources.clusters.layout import Layout, replace_json
from lucid_pipelines.resources.clusters.records import exit_record
from lucid_pipelines.resources.clusters.slurm_holding import placement_of
from lucid_pipelines.resources.clusters.slurm_inventory import DOWN_STATES, SILENT, power_saving
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, SlurmNode
from lucid_pipelines.resources.clusters.slurm_states import WAITING, is_configuring, is_over
from lucid_pipelines.resources.clusters.slurm_submissions import KnownJobs, read_submission, submitting
from lucid_pipelines.resources.clusters.slurm_view import SlurmView
from lucid_pipelines.resources.clusters.start_records import read_record, read_started

FENCE_GENTLY_S, FENCE_PATIENCE_S, RECORD_PATIENCE_S = 4.0, 20.0, 1.0
_log = logging.getLogger(__name__)


class SlurmEnding:
    """Ends attempts.

    Args:
        sample_interval_s: how often a wrapper looks whether it has been told to end.
        dead_node_fence_s: see ``SlurmOptions``.
    """

    def __init__(
        self,
        view: SlurmView,
        layout: Layout,
        sample_interval_s: float,
        dead_node_fence_s: float,
        now: Callable[[], datetime],
    ) -> None:
        self._view = view
        self._commands = view.commands
        self._layout = layout
        self._obeys_within_s = max(FENCE_GENTLY_S, 3 * sample_interval_s)
        self._obeys_inside_within_s = max(FENCE_PATIENCE_S, 5 * sample_interval_s)
        self._dead_after = timedelta(seconds=dead_node_fence_s)
        self._now = now

    def stop(self, attempt_id: str, request: Mapping[str, Any]) -> None:
        """Ask an attempt to end; ``request`` is what ``stop.json`` says."""
        reason = str(request["reason"])
        try:
            folder = self._layout.bury(attempt_id)
            if os.path.lexists(folder / wrapper.EXIT):
                return
            replace_json(folder / wrapper.STOP, request)
            with submitting(folder, self._commands.timeout_s):
                job, noted = self._find(attempt_id, folder), read_submission(folder)
                if job is None or (is_over(job) and not os.path.lexists(folder / wrapper.STARTED)):
                    if not os.path.lexists(folder / wrapper.STARTED):
                        fencing.record_end(folder, attempt_id, "stopped", f"before it started: {reason}", None)
                    return
                if noted is not None and noted.is_shared and (job.state not in WAITING or noted.host_attempt):
                    return  # its wrapper reads the request; a signal would reach its partner too
                if job.state in WAITING or is_configuring(job):
                    only = () if is_configuring(job) else ("--state=PENDING",)  # to Slurm, its nodes' waking is running
                    self._commands.cancel(job.job_id, *only)
                    if self._wait_over(job.job_id, 2.0) and not os.path.lexists(folder / wrapper.STARTED):
                        fencing.record_end(folder, attempt_id, "stopped", f"before it started: {reason}", None)
                    return
        except (OSError, ValueError) as error:
            raise ExternalError(f"attempt {attempt_id!r} cannot be stopped now; call again: {error}") from error
        finally:
            self._view.forget_jobs()
        if noted is not None and noted.adopted_output is not None:
            self._commands.cancel(job.job_id)
        elif not is_over(job):  # its wrapper reads the request; without the signal, within a sampling interval
            self._commands.cancel(job.job_id, "--batch", "--signal=TERM")

    def fence(self, attempt_id: str) -> int:
        """See the port. What counts here are the wrapper's findings, or 1 for a Slurm job that was killed.

        On a node that answers neither Slurm nor us, the attempt's own wrapper obeys the marker as long as it
        reaches the shared disk; when that does not show either, the fence fails until the node has restarted,
        or has been silent for ``dead_node_fence_s`` since the marker was set.
        """
        try:
            folder = self._layout.bury(attempt_id)
            if os.path.lexists(folder / wrapper.EXIT):
                return 0
            if not os.path.lexists(folder / wrapper.FENCED):
                (folder / wrapper.FENCED).touch()
                now_s = self._now().timestamp()  # by our clock, not by that of the disk's server
                os.utime(folder / wrapper.FENCED, (now_s, now_s))
            with submitting(folder, self._commands.timeout_s):
                job = self._find(attempt_id, folder)
            if job is not None and not is_over(job):
                found = self._end(attempt_id, folder, job)
            else:
                found = self._bury(attempt_id, folder, job)
        except (OSError, ValueError) as error:
            raise ExternalError(f"attempt {attempt_id!r} cannot be fenced; call again: {error}") from error
        finally:
            self._view.forget_jobs()
        self._layout.unmark_live(attempt_id)
        return found

    def _end(self, attempt_id: str, folder: Path, job: SlurmJob) -> int:
        """Of one whose job Slurm has not ended."""
        noted = read_submission(folder)
        if job.state in WAITING and noted is not None and noted.host_attempt is not None:
            fencing.record_end(folder, attempt_id, "fenced", "it had not started", 0)
            return 0
        if job.state in WAITING or is_configuring(job):
            self._commands.cancel(job.job_id)
        else:
            inside = self._wait_inside(attempt_id, folder) if noted is not None and noted.is_shared else None
            if inside is not None:
                return inside
            self._commands.cancel(job.job_id, "--batch", "--signal=TERM")
            if _wait_record(folder, FENCE_GENTLY_S):
                return 1 + _leftovers(folder)
            self._commands.cancel(job.job_id, "--signal=KILL", "--full")
            self._commands.cancel(job.job_id)
        if not self._wait_over(job.job_id, FENCE_PATIENCE_S):
            raise ExternalError(f"Slurm job {job.job_id} of attempt {attempt_id!r} does not end; call again")
        fencing.record_end(folder, attempt_id, "fenced", f"Slurm job {job.job_id} was cancelled", 0)
        return 1 if os.path.lexists(folder / wrapper.STARTED) else 0

    def _bury(self, attempt_id: str, folder: Path, job: SlurmJob | None) -> int:
        """Of one whose job Slurm has ended or does not know: its processes may live on, on a node that Slurm lost."""
        started = read_started(folder)
        if started is None:
            fencing.record_end(folder, attempt_id, "fenced", "it had not started", 0)
            return 0
        names = job.nodes if job is not None and job.nodes else placement_of(folder).node_names
        silent = self._silent(names, started.started_at)
        if not silent:  # Slurm ended it and cleaned up, or its machine has started anew since
            patience_s = RECORD_PATIENCE_S if job is not None else self._obeys_within_s  # forgotten is not yet ended
            if _wait_record(folder, patience_s):
                return _leftovers(folder)
            fencing.record_end(folder, attempt_id, "fenced", "its Slurm job had ended", 0)
            return 0
        if _wait_record(folder, self._obeys_within_s):
            return 1 + _leftovers(folder)
        marked_at = datetime.fromtimestamp((folder / wrapper.FENCED).stat().st_mtime, UTC)
        waited = self._now() - marked_at
        if waited < self._dead_after:
            raise ExternalError(
                f"attempt {attempt_id!r} may still run on {', '.join(silent)}, which answers neither Slurm nor us; it "
                f"counts as dead once the node has restarted, or in {(self._dead_after - waited).total_seconds():.0f} s"
            )
        detail = f"{', '.join(silent)} has been silent for {waited.total_seconds():.0f} s"
        fencing.record_end(folder, attempt_id, "fenced", detail, None)
        return 0

    def _wait_inside(self, attempt_id: str, folder: Path) -> int | None:
        """Wait until an attempt inside an open allocation has obeyed, or its holder has killed it.

        Returns how many were found, as ``fence``; ``None`` when neither shows in time: then the allocation must end,
        with all who are in it.
        """
        deadline = time.monotonic() + self._obeys_inside_within_s
        while time.monotonic() < deadline:
            if os.path.lexists(folder / wrapper.EXIT):
                return 1 + _leftovers(folder)
            gone = read_record(folder, holder.GONE)
            if gone is not None:
                fencing.record_end(folder, attempt_id, "fenced", "its wrapper was gone or was killed", 0)
                return int(gone.get("was_fenced") is True)
            time.sleep(0.05)
        _log.warning("attempt %s does not end; the allocation that it shares is cancelled", attempt_id)
        return None

    def _silent(self, names: Sequence[str], started_at: datetime) -> list[str]:
        """Nodes that do not answer Slurm and have not been restarted since."""
        known = self._view.nodes()
        away = [known[name] for name in names if name in known and not _answers(known[name])]
        return [node.name for node in away if node.booted_at is None or node.booted_at <= started_at]

    def _find(self, attempt_id: str, folder: Path) -> SlurmJob | None:
        return KnownJobs.of(self._view.jobs()).find(attempt_id, read_submission(folder), folder.stat().st_uid)

    def _wait_over(self, job_id: int, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while True:
            job = next((job for job in self._commands.jobs() if job.job_id == job_id), None)
            if job is None or is_over(job):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)


def _answers(node: SlurmNode) -> bool:
    return not (node.states & DOWN_STATES or SILENT in node.states or power_saving(node))


def _wait_record(folder: Path, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not os.path.lexists(folder / wrapper.EXIT):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _leftovers(folder: Path) -> int:
    record = read_record(folder, wrapper.EXIT)
    return 0 if record is None else exit_record(record).leftover_count or 0
