"""How jobs ended that the controller has forgotten (MinJobAge): one ``sacct`` for all of them.

No names or comments are asked for, because they may hold line breaks (R-44). Where a site keeps no accounting that is
known after one try; while it does not answer nothing is concluded (R-1).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, expand
from lucid_pipelines.resources.clusters.slurm_states import is_over

FIELDS = ("JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "TimelimitRaw", "UID", "Partition")
SOURCE = "sacct"
NO_ACCOUNTING = "accounting storage is disabled"
_ASK_AGAIN_S, _OFF_FOR_S = 60.0, 600.0
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Accounted:
    """Jobs that have ended, by number; ``fault`` = why nothing can be said of the others now."""

    jobs: Mapping[int, SlurmJob] = field(default_factory=dict)
    fault: str | None = None


class SlurmAccounting:
    """Asks accounting. After a fault it is left alone for a minute, so that a dead database costs no pass its time."""

    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands
        self._off_until = 0.0
        self._fault: tuple[float, str] | None = None

    def ended(self, job_ids: Collection[int]) -> Accounted:
        """What accounting says of these jobs; the first ``500`` of them, the others with the next pass."""
        now = time.monotonic()
        if not job_ids or now < self._off_until:
            return Accounted()
        if self._fault is not None and now < self._fault[0]:
            return Accounted(fault=self._fault[1])
        asked = sorted(job_ids)[:_AT_ONCE]
        try:
            said = self._commands.run(
                "sacct", "--parsable2", "--noheader", "--allocations", f"--jobs={','.join(map(str, asked))}",
                f"--format={','.join(FIELDS)}", more_env={"SLURM_TIME_FORMAT": "%s"},
            )  # fmt: skip
        except ExternalError as error:
            if NO_ACCOUNTING in str(error) or "cannot be run" in str(error):
                self._off_until = now + _OFF_FOR_S
                return Accounted()
            self._fault = (now + _ASK_AGAIN_S, f"how Slurm ended it is not known: {error}")
            return Accounted(fault=self._fault[1])
        self._fault = None
        late = "more jobs have ended than are asked for at once" if len(job_ids) > len(asked) else None
        return Accounted(parse_accounting(said), late)


def parse_accounting(text: str) -> dict[int, SlurmJob]:
    """Jobs that have ended, from ``sacct``'s lines; a line that cannot be understood is left out.

    Of a job that ran several times the last line counts.
    """
    found: dict[int, SlurmJob] = {}
    for line in text.splitlines():
        cells = line.split("|")
        try:
            job = _job(cells) if len(cells) == len(FIELDS) else None
        except ValueError:
            continue
        if job is not None and is_over(job):
            found[job.job_id] = job
    return found


def _job(cells: list[str]) -> SlurmJob:
    number, state, status, submit, start, end, nodes, limit, uid, partition = cells
    code, _, signal = status.partition(":")
    words = state.split()
    if not words:
        raise ValueError("a job without a state")
    names = () if nodes in ("", "None assigned") else expand(nodes)
    return SlurmJob(
        job_id=int(number),
        state=words[0].upper(),
        flags=frozenset(),
        name="",
        user="",
        uid=int(uid) if uid.isdigit() else None,
        comment="",
        partition=partition,
        qos="",
        reason=f"by user {words[2]}" if words[1:2] == ["by"] and len(words) == 3 else " ".join(words[1:]),
        nodes=names,
        gres_detail=(),
        gres_request="",
        node_count=max(1, len(names)),
        exit_code=None if int(signal or 0) else int(code),
        exit_signal=int(signal or 0) or None,
        submitted_at=_time(submit),
        started_at=_time(start) if names else None,
        ended_at=_time(end),
        restart_count=0,
        is_held=False,
        time_limit_s=float(limit) * 60.0 if limit.isdigit() else None,
        work_dir="",
        output="",
        command="",
        is_array=False,
        source=SOURCE,
    )


def _time(text: str) -> datetime | None:
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() and int(text) else None
