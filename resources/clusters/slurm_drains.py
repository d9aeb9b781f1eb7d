"""Isolations on Slurm: our own ledger with its owners, and DRAIN with a reason that bears our mark.

Slurm keeps one reason a node. So the stack of reasons is in our ledger (``isolation.py``), and Slurm's state follows
it as long as nobody else has set one: another's reason is never overwritten and never lifted (R-17), whether it
drains the node or says why it is down, and a drain of ours that an administrator lifted is not set again. Ours is
lifted by UNDRAIN, which leaves everything else as it is; RESUME would also bring up a node that is down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from lucid_pipelines.domain.cluster import Isolation
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.resources.clusters.isolation import IsolationLedger
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_json import SlurmNode

MARK = "lucid:"
SLURM_OWNER = "slurm"
_REASON_CHARS = 200
_log = logging.getLogger(__name__)


class SlurmDrains:
    """Reasons against nodes, in our ledger and in Slurm."""

    def __init__(self, folder: Path, commands: SlurmCommands, now: Callable[[], datetime]) -> None:
        self._ledger = IsolationLedger(folder, now)
        self._commands = commands
        self._now = now

    def of(self, node: SlurmNode) -> tuple[Isolation, ...]:
        """Our reasons, and Slurm's own drain where somebody else set it."""
        ours = self._ledger.of(node.name)
        if "DRAIN" not in node.states or node.reason.startswith(MARK):
            return ours
        owner = f"{SLURM_OWNER}:{node.reason_by}" if node.reason_by else SLURM_OWNER
        return (*ours, Isolation((), owner, node.reason or "drained", node.reason_at or self._now()))

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        """The ledger first: from then on we keep off, whatever Slurm says to it."""
        before = self._ledger.of(node)
        known = any(i.owner == owner and not i.gpu_indices for i in before)
        self._ledger.add(node, gpu_indices, owner, reason)
        if gpu_indices:
            return
        found = self._look(node)
        is_drained = "DRAIN" in found.states
        if found.reason and not found.reason.startswith(MARK):
            _log.info("node %s has a reason of %s already; it stays", node, found.reason_by or "somebody")
            return
        if known and not is_drained:
            _log.warning("somebody resumed node %s, which we drain; it stays resumed, and we keep off it", node)
            return
        self._commands.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={_text(owner, reason)}")

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        """UNDRAIN once none of our reasons against the whole node is left, and only when Slurm's reason is ours."""
        self._ledger.remove(node, gpu_indices, owner)
        left = [i for i in self._ledger.of(node) if not i.gpu_indices]
        found = self._look(node)
        if "DRAIN" not in found.states or not found.reason.startswith(MARK):
            return
        if left:
            text = _text(left[-1].owner, left[-1].reason)
            if found.reason != text:
                self._commands.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={text}")
            return
        self._commands.run("scontrol", "update", f"NodeName={node}", "State=UNDRAIN")

    def _look(self, node: str) -> SlurmNode:
        """Asked right before every step: what was true a moment ago may have been changed by somebody."""
        for found in self._commands.nodes():
            if found.name == node:
                return found
        raise NotFoundError(f"Slurm knows no node of this name: {node!r}")


def _text(owner: str, reason: str) -> str:
    printable = "".join(c if c.isprintable() and c not in "\"'`" else " " for c in f"{owner}: {reason}")
    return f"{MARK} {' '.join(printable.split())}"[:_REASON_CHARS]
