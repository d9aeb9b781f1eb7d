"""From logs to a diagnosis: read, locate, classify, say it as data (what ``lucid diagnose`` prints)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError, LucidError, NotFoundError
from lucid_pipelines.failures.classify import Classified, Source, Thresholds, classify
from lucid_pipelines.failures.huge import HugeLog, read_around_end
from lucid_pipelines.failures.locate import Located, always_in_doubt, locate
from lucid_pipelines.failures.records import Record
from lucid_pipelines.failures.rulebase import RuleBase, load_rules
from lucid_pipelines.failures.scan import Scan, scan
from lucid_pipelines.failures.textmodel import TextModel, load_text_model
from lucid_pipelines.failures.verdicts import Judge
from lucid_pipelines.failures.vocabulary import Ending, Restart
from lucid_pipelines.logs import compression_of, iter_raw_lines, labels_of, rank_from_path

FULL_READ_BYTES = 64 << 20
"""Logs up to this size are read whole; larger plain files by the fast path."""
_MAX_CASCADE_LINES = 200
_MAX_EVIDENCE = 12
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line that speaks for the answer, or was weighed and set aside."""

    line: int | None
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Tools:
    """What a diagnosis is made with; build it once and use it for many logs.

    Attributes:
        model: ``None`` = what no rule knows stays unknown.
    """

    rules: RuleBase
    model: TextModel | None
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def judge(self) -> Judge:
        """A judge of these rules, with a memory of its own."""
        return Judge(self.rules)

    def harmless(self, record: Record) -> float:
        """How likely an error-like line that no rule knows is harmless."""
        return self.model.judge(record.judged_text).harmless_frac if self.model is not None else always_in_doubt(record)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log says about a failure.

    Attributes:
        file: the log.
        ending: how the run ended.
        root: the first true error; ``None`` when there is none to name.
        root_line: 1-based, ``\\n``-separated; ``None`` when unknown (then ``root_offset`` still tells where).
        is_restart_advised: whether a restart without a person is sensible by what the log says; the policy
            decides (budgets, modes, hardware).
        path: how the log was read: ``whole``, ``bisected`` or ``scanned`` (the slower path).
        bytes_read: how much of it.
    """

    file: str
    ending: Ending
    classified: Classified
    located: Located
    root_line: int | None
    root_offset: int | None
    root_text: str | None
    root_rank: int | None
    is_restart_advised: bool
    cascade_lines: tuple[int, ...]
    evidence: tuple[EvidenceLine, ...]
    advice: str
    path: str
    bytes_read: int
    size: int
    undecodable_lines: int

    def to_json(self) -> dict[str, object]:
        """One object of ``lucid diagnose --json``."""
        c = self.classified
        return {
            "file": self.file,
            "root_line": self.root_line,
            "root_text": self.root_text,
            "root_rank": self.root_rank,
            "category": c.category.value if c.category else None,
            "component": c.component.value if c.component else None,
            "restart": self.is_restart_advised,
            "confidence": round(c.confidence, 3),
            "rule": c.rule_id,
            "cascade_lines": list(self.cascade_lines),
            "evidence": [{"line": e.line, "text": e.text, "why": e.why} for e in self.evidence],
            "advice": self.advice,
            "ending": self.ending.value,
            "basis": self.located.basis,
            "source": c.source.value,
            "family": c.family.name if c.family else None,
            "root_offset": self.root_offset,
            "read": {
                "path": self.path,
                "bytes": self.bytes_read,
                "of": self.size,
                "undecodable_lines": self.undecodable_lines,
            },
        }


def shipped_tools(thresholds: Thresholds | None = None) -> Tools:
    """Rules and text model as shipped."""
    return Tools(load_rules(), load_text_model(), thresholds or Thresholds())


def diagnose_log(path: Path, tools: Tools, *, full_read_bytes: int = FULL_READ_BYTES) -> Diagnosis:
    """Diagnose one log file, plain or compressed.

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    size = path.stat().st_size if path.exists() else 0
    if compression_of(path) is None and size > full_read_bytes:
        huge = read_around_end(path, tools.judge)
        return _diagnose(path, huge.scan, tools, huge)
    found = scan(iter_raw_lines(path, fold_blanks=True), labels_of(path), tools.judge)
    return _diagnose(path, found, tools, None, size)


def diagnose_logs(paths: Sequence[Path], tools: Tools) -> Diagnosis:
    """Diagnose the logs of one attempt's ranks together: the first error by time, then by strength (R-8).

    One that cannot be read is left aside and named in the advice, as long as another can be.

    Raises:
        NotFoundError, ExternalError: no file is there and can be read.
        ValueError: no path was given.
    """
    found: list[Diagnosis] = []
    unread: list[LucidError] = []
    for path in paths:
        try:
            found.append(diagnose_log(path, tools))
        except (NotFoundError, ExternalError) as error:
            unread.append(error)
    if unread and not found:
        raise unread[0]
    chosen = _first_failure(found)
    if not unread:
        return chosen
    return replace(chosen, advice=f"{chosen.advice} {len(unread)} other log(s) could not be read: {unread[0]}.")


def _first_failure(found: Sequence[Diagnosis]) -> Diagnosis:
    failed = [d for d in found if d.ending is Ending.FAILED]
    if not failed:
        return max(found, key=lambda d: d.ending is not Ending.UNKNOWN)
    strongest = max(d.located.strength for d in failed)
    return _earliest([d for d in failed if d.located.strength == strongest])


def nothing_read() -> Diagnosis:
    """The diagnosis of an attempt that left no log: unknown, for want of evidence."""
    located = Located(Ending.UNKNOWN, None, "0: there is no log", 0)
    classified = Classified(None, None, Restart.NEVER, 0.0, Source.NONE, reasons=("there is no log",))
    advice = "There is no log. Look at the exit record and at the node."
    return Diagnosis(
        "", Ending.UNKNOWN, classified, located, None, None, None, None, False, (), (), advice, "none", 0, 0, 0
    )


def _earliest(candidates: Sequence[Diagnosis]) -> Diagnosis:
    first = candidates[0]
    for other in candidates[1:]:
        mine = first.located.root.record.time if first.located.root else None
        theirs = other.located.root.record.time if other.located.root else None
        if theirs is not None and (mine is None or (theirs.seconds_until(mine) or 0.0) > 0):
            first = other
    return first


def _diagnose(path: Path, found: Scan, tools: Tools, huge: HugeLog | None, size: int = 0) -> Diagnosis:
    located = locate(found, tools.harmless)
    classified = classify(located, tools.rules, tools.model, tools.thresholds)
    root = located.root
    record = root.record if root is not None else None
    rank = record.rank if record is not None else None
    if rank is None:
        rank = rank_from_path(path)
    return Diagnosis(
        file=str(path),
        ending=located.ending,
        classified=classified,
        located=located,
        root_line=record.number if record is not None else None,
        root_offset=record.offset if record is not None else None,
        root_text=record.text[:_MAX_TEXT] if record is not None else None,
        root_rank=rank,
        is_restart_advised=classified.advises_restart(located.ending, tools.thresholds),
        cascade_lines=_cascade_lines(located),
        evidence=_evidence(located, classified),
        advice=_advice(located, classified),
        path=huge.path if huge is not None else "whole",
        bytes_read=huge.bytes_read if huge is not None else size,
        size=huge.size if huge is not None else size,
        undecodable_lines=found.undecodable,
    )


def _cascade_lines(located: Located) -> tuple[int, ...]:
    numbers = {record.number for record in located.echoes if record.number is not None}
    return tuple(sorted(numbers.union(located.echo_numbers))[:_MAX_CASCADE_LINES])


def _evidence(located: Located, classified: Classified) -> tuple[EvidenceLine, ...]:
    lines: list[EvidenceLine] = []
    if located.root is not None:
        record = located.root.record
        why = "; ".join(classified.reasons) or located.root.verdict.why
        lines.append(EvidenceLine(record.number, record.text[:_MAX_TEXT], why))
        lines += [
            EvidenceLine(None, text, "belongs to the error above") for text in record.detail[:2] if _says_more(text)
        ]
    lines += [
        EvidenceLine(item.record.number, item.record.text[:_MAX_TEXT], item.verdict.why)
        for item in located.evidence[-4:]
    ]
    lines += [
        EvidenceLine(a.record.number, a.record.text[:_MAX_TEXT], "not the cause: " + a.why)
        for a in located.set_aside[-6:]
    ]
    return tuple(lines[:_MAX_EVIDENCE])


def _says_more(text: str) -> bool:
    return bool(text.strip()) and not text.startswith(("CUDA kernel errors might", "For debugging", "Compile with"))


def _advice(located: Located, classified: Classified) -> str:
    if located.ending is Ending.ROOT_LOST:
        return "Only echoes are left in this log. Look at the other ranks' logs or at the part that was rotated away."
    if located.ending.is_blameless and located.ending is not Ending.UNKNOWN:
        return f"Nothing to mend: the run {_ENDINGS[located.ending]}."
    if classified.family is not None:
        return classified.family.advice
    if classified.category is not None and classified.source is Source.TEXT_MODEL:
        return "No rule knows this error. Read the lines around it; if it comes again, add a rule."
    return "The cause is not known. A person should read the lines around the first error before anything is restarted."


_ENDINGS = {
    Ending.SUCCEEDED: "finished; what follows in the log is teardown",
    Ending.CANCELLED: "was cancelled",
    Ending.INTERRUPTED: "was interrupted by its user",
    Ending.PREEMPTED: "was preempted by the scheduler",
    Ending.TIME_LIMIT: "reached its time limit",
    Ending.TERMINATED: "was asked to end from outside",
}
