"""Join what the log says with the exit record, Xids, counters, peers and history, whichever way they point.

Numbered rules, read top to bottom; the first that applies decides the class, all of them leave their evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from lucid_pipelines.failures.classify import Source
from lucid_pipelines.failures.diagnosis import Diagnosis
from lucid_pipelines.failures.facts import FailureFacts, PastFailure, SchedulerEnd, place_of_rank
from lucid_pipelines.failures.signature import signature_of
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Restart
from lucid_pipelines.failures.xid import XidPointsTo, XidTable

_REPEAT_WINDOW = timedelta(days=7)
_PEER_WINDOW = timedelta(minutes=10)
_OPEN_TO_HARDWARE = frozenset(
    {
        "gpu-illegal-access",
        "segfault",
        "internal-assert",
        "gpu-missing",
        "peer-reset",
        "collective-timeout",
        "rendezvous",
    }
)
_NODE_IN_TEXT = re.compile(r"(?:failed on node|Node failure on|on node|ON|host) (?P<node>[A-Za-z][\w.-]*\d[\w.-]*)\b")
_COUNTER_PARTS = {
    "ecc_uncorrectable": Component.GPU,
    "row_remap_failure": Component.GPU,
    "nvlink_errors": Component.NVLINK,
    "nvlink_fatal": Component.NVLINK,
}


class Witness(StrEnum):
    """Kinds of evidence that do not come from one another."""

    LOG = "log"
    XID = "xid"
    COUNTER = "counter"
    PEERS = "peers"
    HISTORY = "history"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True)
class Testimony:
    """One piece of evidence: who says it, about what, and whether it accuses or clears."""

    witness: Witness
    accuses: bool
    component: Component | None
    node: str | None
    gpu_index: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part that may be broken; ``gpu_index`` is ``None`` for the whole node."""

    node: str
    gpu_index: int | None = None

    def __str__(self) -> str:
        return self.node if self.gpu_index is None else f"{self.node} GPU {self.gpu_index}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The class of the failure after all the evidence was heard.

    Attributes:
        basis: which rule of this file decided.
        signature: stable name of the root error, for budgets and loops.
        suspects: parts that may be broken, likeliest first; empty when the evidence names none.
    """

    diagnosis: Diagnosis
    ending: Ending
    category: Category | None
    component: Component | None
    restart: Restart
    confidence: float
    basis: str
    signature: str
    testimony: tuple[Testimony, ...]
    suspects: tuple[Suspect, ...]
    notes: tuple[str, ...] = ()

    @property
    def accusers(self) -> frozenset[Witness]:
        """Independent witnesses that accuse a piece of hardware."""
        return frozenset(t.witness for t in self.testimony if t.accuses and t.component is not None)


def weigh(diagnosis: Diagnosis, facts: FailureFacts, table: XidTable) -> Finding:
    """Join a log's diagnosis with the other facts.

    Args:
        table: the Xid catalogue.
    """
    testimony = [*_from_log(diagnosis, facts), *_from_xids(facts, table), *_from_counters(facts)]
    testimony += _from_peers(facts) + _from_history(diagnosis, facts, table) + _from_scheduler(facts)
    notes = tuple(
        f"telemetry of {node} was lost: look at the node, draw no conclusion" for node in facts.telemetry_lost
    )
    c = diagnosis.classified
    told = _Told(c.category, c.component, c.restart, c.confidence, diagnosis.ending, f"log: {diagnosis.located.basis}")
    decided = _decide(told, diagnosis, facts, testimony)
    return Finding(
        diagnosis=diagnosis,
        ending=decided.ending,
        category=decided.category,
        component=decided.component,
        restart=decided.restart,
        confidence=decided.confidence,
        basis=decided.basis,
        signature=signature_of(diagnosis, decided.category, decided.component),
        testimony=tuple(testimony),
        suspects=_suspects(decided.component, testimony),
        notes=notes,
    )


def could_not_start(facts: FailureFacts) -> bool:
    """Whether the command is not there, or is no program: the exit record says so."""
    return facts.exit is not None and facts.exit.reason == "spawn_failed"


@dataclass(frozen=True, slots=True)
class _Told:
    category: Category | None
    component: Component | None
    restart: Restart
    confidence: float
    ending: Ending
    basis: str


def _decide(told: _Told, diagnosis: Diagnosis, facts: FailureFacts, testimony: list[Testimony]) -> _Told:
    # 1. The scheduler or the control plane ended it: its record outranks signals and log text.
    if facts.scheduler_end is SchedulerEnd.NODE_FAILED:
        return _Told(
            Category.INFRASTRUCTURE,
            Component.NODE,
            Restart.ELSEWHERE,
            0.98,
            Ending.FAILED,
            "1: the scheduler lost the node",
        )
    if facts.scheduler_end is not None:
        ending = _ENDINGS[facts.scheduler_end]
        return _Told(None, None, Restart.NEVER, 0.98, ending, f"1: the scheduler's record says {facts.scheduler_end}")
    # 2. Stopped on request, or ended with success: nothing failed, whatever the log's last lines say.
    if facts.exit is not None and facts.exit.reason == "stopped":
        return _Told(None, None, Restart.NEVER, 0.98, Ending.CANCELLED, "2: stopped on request")
    if facts.exit is not None and facts.exit.exit_code == 0:
        return _Told(None, None, Restart.NEVER, 0.98, Ending.SUCCEEDED, "2: the command ended with exit code 0")
    # 2b. It never began: the log holds nothing of it.
    if could_not_start(facts):
        return _Told(Category.USER_SCRIPT, None, Restart.NEVER, 0.95, Ending.FAILED, "2: the command could not start")
    hardware = [
        t for t in testimony if t.accuses and t.component is not None and t.witness in (Witness.XID, Witness.COUNTER)
    ]
    family = diagnosis.classified.family
    is_open = told.category is None or family is None or family.name in _OPEN_TO_HARDWARE
    # 3. Hardware evidence on the job's own GPUs explains a symptom, or an end without explanation.
    if hardware and is_open:
        part = hardware[0].component
        return _Told(Category.INFRASTRUCTURE, part, Restart.ELSEWHERE, 0.96, Ending.FAILED, f"3: {hardware[0].text}")
    # 4. Hardware evidence beside a definite error of another kind: both are told, the log's class stands.
    if hardware and told.category is not Category.INFRASTRUCTURE:
        return _Told(told.category, told.component, told.restart, min(told.confidence, 0.7), told.ending,
            f"4: {told.basis}; but {hardware[0].text}")  # fmt: skip
    # 5. The log blames hardware and an app-side Xid on the same GPU says it was the program.
    cleared = [t for t in testimony if not t.accuses and t.witness is Witness.XID]
    if cleared and family is not None and family.name in ("gpu-launch-failure-lost", "gpu-missing") and not hardware:
        return _Told(
            told.category,
            told.component,
            told.restart,
            min(told.confidence, 0.55),
            told.ending,
            f"5: {told.basis}; {cleared[0].text}",
        )
    # 6. Hardware evidence agrees with the log.
    if hardware and told.component is hardware[0].component:
        return _Told(
            told.category,
            told.component,
            told.restart,
            max(told.confidence, 0.99),
            told.ending,
            f"6: {told.basis}; {hardware[0].text}",
        )
    # 7. The log stands alone.
    return told


_ENDINGS = {
    SchedulerEnd.CANCELLED: Ending.CANCELLED,
    SchedulerEnd.PREEMPTED: Ending.PREEMPTED,
    SchedulerEnd.TIME_LIMIT: Ending.TIME_LIMIT,
    SchedulerEnd.EVICTED: Ending.PREEMPTED,
}


def _from_log(diagnosis: Diagnosis, facts: FailureFacts) -> list[Testimony]:
    c = diagnosis.classified
    if c.category is not Category.INFRASTRUCTURE or c.source is Source.TEXT_MODEL:
        return []
    node, gpu = _place_in_log(diagnosis, facts)
    where = diagnosis.root_line if diagnosis.root_line is not None else f"byte {diagnosis.root_offset}"
    text = f"line {where} of the log: {(diagnosis.root_text or '')[:120]}"
    is_gpu_part = c.component in (Component.GPU, Component.NVLINK)
    return [Testimony(Witness.LOG, True, c.component, node, gpu if is_gpu_part else None, text)]


def _run_well(count: int, node: str) -> str:
    return f"another job on {node} runs well" if count == 1 else f"{count} other jobs on {node} run well"


def _place_in_log(diagnosis: Diagnosis, facts: FailureFacts) -> tuple[str | None, int | None]:
    """Node and GPU that the root line names: a host in it, else its rank's place, else the only node there is."""
    names = facts.placement.node_names
    record = diagnosis.located.root.record if diagnosis.located.root is not None else None
    if record is not None:
        match = _NODE_IN_TEXT.search(record.text)
        for name in ((match["node"] if match else None), record.host):
            if name in names:
                return name, None
        for name in names:
            if re.search(rf"\b{re.escape(name)}\b", record.text):
                return name, None
    place = place_of_rank(facts.placement, diagnosis.root_rank)
    if place is not None:
        return place
    if len(names) == 1:
        indices = facts.placement.shares[0].gpu_indices
        return names[0], indices[0] if len(indices) == 1 else None
    return None, None


def _from_xids(facts: FailureFacts, table: XidTable) -> list[Testimony]:
    found: list[Testimony] = []
    for report in facts.xids:
        entry = table.entry(report.code)
        if entry is None or entry.points_to in (XidPointsTo.NONE, XidPointsTo.WATCH):
            continue
        accuses = entry.component is not None
        says = entry.meaning if accuses else f"{entry.meaning}: points to the program"
        found.append(
            Testimony(
                Witness.XID,
                accuses,
                entry.component,
                report.node,
                report.gpu_index,
                f"Xid {entry.code} on {Suspect(report.node, report.gpu_index)}: {says}",
            )
        )
    return found


def _from_counters(facts: FailureFacts) -> list[Testimony]:
    return [
        Testimony(
            Witness.COUNTER,
            True,
            part,
            c.node,
            c.gpu_index,
            f"{c.name} of {c.node} GPU {c.gpu_index} rose by {c.increased_by:g}",
        )
        for c in facts.counters
        if (part := _COUNTER_PARTS.get(c.name)) is not None and c.increased_by is not None and c.increased_by > 0
    ]


def _from_peers(facts: FailureFacts) -> list[Testimony]:
    """Other jobs on the same nodes: all of them failing accuses the node, one healthy job clears it (R-16)."""
    found: list[Testimony] = []
    for node in facts.placement.node_names:
        states = [
            p
            for p in facts.peers
            if p.node == node and p.is_healthy is not None and facts.as_of - p.as_of <= _PEER_WINDOW
        ]
        if not states:
            continue
        failing = [p for p in states if p.is_healthy is False]
        if failing and len(failing) == len(states):
            found.append(
                Testimony(
                    Witness.PEERS, True, Component.NODE, node, None, f"all {len(states)} other jobs on {node} fail too"
                )
            )
        elif not failing:
            found.append(Testimony(Witness.PEERS, False, None, node, None, _run_well(len(states), node)))
    return found


def _from_history(diagnosis: Diagnosis, facts: FailureFacts, table: XidTable) -> list[Testimony]:
    """The same part failed before, for other users: suspicion of the part (R-13)."""
    found: list[Testimony] = []
    node, gpu = _place_in_log(diagnosis, facts)
    if node is None:
        return found
    recent = [f for f in facts.cluster_failures if f.node == node and facts.as_of - f.failed_at <= _REPEAT_WINDOW]
    same_gpu = [f for f in recent if gpu is not None and f.gpu_index == gpu]
    users = {f.user for f in same_gpu} - {facts.job.spec.user}
    is_gpu_like = diagnosis.classified.component in (Component.GPU, Component.NVLINK) or _is_gpu_symptom(diagnosis)
    if is_gpu_like and len(same_gpu) + 1 >= table.app_repeat_limit and users and _are_gpu_failures(same_gpu):
        text = f"{node} GPU {gpu} also failed {len(same_gpu)} time(s) for other users within a week"
        found.append(Testimony(Witness.HISTORY, True, Component.GPU, node, gpu, text))
    node_faults = [f for f in recent if f.component is diagnosis.classified.component is not None]
    if diagnosis.classified.component in (Component.NODE, Component.NETWORK) and len(node_faults) >= 1:
        text = f"{node} had {len(node_faults)} failure(s) of this kind within a week"
        found.append(Testimony(Witness.HISTORY, True, diagnosis.classified.component, node, None, text))
    return found


def _is_gpu_symptom(diagnosis: Diagnosis) -> bool:
    family = diagnosis.classified.family
    return family is not None and family.name in ("gpu-illegal-access", "gpu-missing", "internal-assert")


def _are_gpu_failures(failures: Iterable[PastFailure]) -> bool:
    return all(f.component is Component.GPU or "gpu" in f.signature for f in failures)


def _from_scheduler(facts: FailureFacts) -> list[Testimony]:
    if facts.scheduler_end is not SchedulerEnd.NODE_FAILED:
        return []
    names = facts.placement.node_names
    node = names[0] if len(names) == 1 else None
    return [Testimony(Witness.SCHEDULER, True, Component.NODE, node, None, "the scheduler declared the node failed")]


def _suspects(component: Component | None, testimony: list[Testimony]) -> tuple[Suspect, ...]:
    """Parts that are accused by name and not cleared; the most accused first."""
    if component is None or component is Component.STORAGE:
        return ()
    score: dict[Suspect, int] = {}
    for t in testimony:
        if t.accuses and t.node is not None and t.component is not None:
            suspect = Suspect(t.node, t.gpu_index if component in (Component.GPU, Component.NVLINK) else None)
            score[suspect] = score.get(suspect, 0) + 1
    cleared = {t.node for t in testimony if not t.accuses and t.witness is Witness.PEERS}
    kept = [s for s in score if not (component is Component.NODE and s.node in cleared)]
    return tuple(sorted(kept, key=lambda s: (-score[s], s.gpu_index is None, str(s))))
