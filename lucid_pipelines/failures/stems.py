"""A cheap first look: which lines may say something about a failure, an end or a restart."""

from __future__ import annotations

# One stem a word; "|" stands for a space inside a stem.
_STEMS = """
error exception traceback fail fatal abort kill signal sigterm sigint core|dumped segmentation
terminat cancel interrupt timeout timed|out time|out time|limit refused reset unreachable no|route
broken lost died dead denied not|found no|such no|space quota stale corrupt truncat invalid unable
cannot can't could|not couldn't xid nvrm ecc nvlink nvswitch oom out|of exhaust unavail mismatch
undefined unsupported unrecogni required assert evict preempt resum restart relaunch requeue retry
retrie skipp complet finish done success exit srun slurm nan panic lockup not|ready closed
disconnect unhealthy hung hang stuck expired i/o disk full 100% halted fabric uncorrect hardware
read-only already|in|use in|use busy incompatib insufficient does|not|exist must|be fall|back
falling ignor recover ^c usage: train_runtime ptxas nvcc ninja numpy|1 resource scancel reclaim
maintenance spot handle infinite diverg overflow loss|scale heartbeat barrier rendezvous oom_kill
exceed too|many too|old cached conflict version deadline unavailab watchdog coll went|down
link|is|down nothing converg stopp ended limit duplicate ordinal memory unknown bad wrong permission
access expected what(): frame|# inner|error ee9999 ei00 ej00 el00 ez99 unexpected violat crash
unbound substitution
unary|operator ambiguous untagged
retire passed throttl degrad gone missing using instead not|enough override trying only lacks down fault
"""

STEMS: tuple[bytes, ...] = tuple(stem.replace("|", " ").encode() for stem in dict.fromkeys(_STEMS.split()))
"""A line that holds none of these, in lower case, is ordinary output."""


def is_hot(data: bytes) -> bool:
    """Whether a line may say something about a failure, an end or a restart."""
    lowered = data.lower()
    for stem in STEMS:  # noqa: SIM110 - a plain loop is twice as fast as any() here, and this runs once a line form
        if stem in lowered:
            return True
    return False
