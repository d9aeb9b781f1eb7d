"""Two attempts on one GPU where the site has no typed shards: the second runs inside the first one's allocation.

See ``holder.py`` for what the allocation's batch job does. Only whole placements can be joined: a guest uses GPUs
that its host was given, on one node any of them, on several nodes all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.resources.clusters import holder, wrapper
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES, write_once
from lucid_pipelines.resources.clusters.slurm_submissions import Submission, read_submission


@dataclass(frozen=True, slots=True)
class Host:
    """An attempt whose allocation is open.

    Attributes:
        folder: its attempt's folder.
        noted: the job that holds the allocation.
        placement: what the allocation consists of.
    """

    attempt_id: str
    folder: Path
    noted: Submission
    placement: Placement

    def positions(self, placement: Placement) -> list[int] | None:
        """Which of its GPUs a guest uses; ``None`` = all of them, in the same order.

        Raises:
            ValueError: the placement does not lie in it.
        """
        if placement == self.placement:
            return None
        ours, theirs = self.placement.shares, placement.shares
        if len(ours) != 1 or len(theirs) != 1 or ours[0].node != theirs[0].node:
            raise ValueError(f"{placement} does not lie in {self.placement}")
        known = sorted(ours[0].gpu_indices)
        return [known.index(gpu) for gpu in theirs[0].gpu_indices]

    def let_in(self, attempt_id: str, spec_path: Path, placement: Placement) -> bool:
        """Ask for a guest to be started; ``False`` when the door is closed. Asking again changes nothing.

        Raises:
            OSError: the disk refuses.
            ValueError: the placement does not lie in it.
        """
        positions, guests = self.positions(placement), self.folder / holder.GUESTS
        entry = guests / f"{attempt_id}.json"
        with _door(guests):
            if entry.exists():
                return True
            if os.path.lexists(guests / holder.CLOSED):
                return False
            write_once(entry, {"spec": str(spec_path), "positions": positions})
            return True


def open_allocation(folder: Path) -> None:
    """Make what the batch job of an attempt needs to let others in. Raises ``OSError``."""
    (folder / holder.GUESTS).mkdir(exist_ok=True)
    with _door(folder / holder.GUESTS):
        pass


def host_of(attempt_id: str, attempts: Path, owner_uid: int) -> Host | None:
    """The host behind a running attempt, be it host or guest; ``None`` when its allocation is not open.

    Raises:
        OSError: something cannot be read.
        ValueError: something cannot be understood.
    """
    folder = attempts / attempt_id
    if os.path.lexists(folder / wrapper.EXIT) or folder.stat().st_uid != owner_uid:
        return None
    noted = read_submission(folder)
    if noted is None:
        return None
    host_id = noted.host_attempt or attempt_id
    folder = (attempts / host_id).resolve()
    if not os.path.lexists(folder / holder.GUESTS / holder.DOOR):
        return None
    own = read_submission(folder)
    return None if own is None else Host(host_id, folder, own, placement_of(folder))


def placement_of(folder: Path) -> Placement:
    """Where an attempt was placed. Raises ``OSError`` or ``ValueError``."""
    spec: Mapping[str, object] = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
    try:
        return Placement.from_json(spec["placement"])  # pyright: ignore[reportArgumentType]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the placement of an attempt cannot be understood: {folder}") from error


@contextmanager
def _door(guests: Path) -> Iterator[None]:
    fd = os.open(guests / holder.DOOR, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
