"""The whole chain for one failure, stage by stage, without acting: locate, classify, weigh, plan, decide, report.

Each stage is a function of its own and can be run alone again; this module only puts them in a row. The live
system calls ``examine`` when an attempt has ended, runs the plan's checks through ``Cluster.check``, and then
calls ``conclude`` with their results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lucid_pipelines.failures.classify import Source
from lucid_pipelines.failures.diagnosis import Diagnosis, Tools, diagnose_logs, nothing_read
from lucid_pipelines.failures.evidence import Finding, weigh
from lucid_pipelines.failures.facts import FailureFacts
from lucid_pipelines.failures.language import MAX_LINES, LanguageOutcome, ask
from lucid_pipelines.failures.plan import CheckSummary, DiagnosisPlan, plan_diagnosis, read_checks
from lucid_pipelines.failures.policy import Decision, decide
from lucid_pipelines.failures.recovery import RecoverySettings, RecoveryState
from lucid_pipelines.failures.report import report_page
from lucid_pipelines.failures.vocabulary import Ending
from lucid_pipelines.failures.xid import XidTable, load_xids
from lucid_pipelines.logs import (
    FileSource,
    LineSplitter,
    RawLine,
    SplitterState,
    compression_of,
    iter_raw_lines,
    labels_of,
    normalise,
)
from lucid_pipelines.ports import CheckResult, LanguageModel

_WINDOW_BEFORE = 200
_WINDOW_AFTER = MAX_LINES - _WINDOW_BEFORE
_WINDOW_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that is known before any test was run."""

    facts: FailureFacts
    diagnosis: Diagnosis
    finding: Finding
    plan: DiagnosisPlan
    language: LanguageOutcome | None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What follows, and the page for people."""

    examination: Examination
    checks: CheckSummary | None
    decision: Decision
    page: str


def examine(
    facts: FailureFacts,
    tools: Tools,
    *,
    table: XidTable | None = None,
    language_model: LanguageModel | None = None,
    idle_nodes: Sequence[str] = (),
) -> Examination:
    """Locate, classify and weigh; plan the tests.

    Args:
        language_model: asked only where the rules and the text model are not sure.
        idle_nodes: nodes on which a disturbing test may run.

    Raises:
        NotFoundError, ExternalError: a log cannot be read.
    """
    diagnosis = diagnose_logs(facts.logs, tools) if facts.logs else nothing_read()
    outcome = None
    c = diagnosis.classified
    if (
        language_model is not None
        and diagnosis.ending is Ending.FAILED
        and not c.names_a_cause
        and c.confidence < tools.thresholds.ask_language_model
    ):
        outcome = ask(language_model, lines_around(diagnosis))
        if outcome.classified is not None:
            diagnosis = _with_answer(diagnosis, outcome, tools)
    finding = weigh(diagnosis, facts, table or load_xids())
    repeated = any(f.node in {s.node for s in finding.suspects} for f in facts.cluster_failures)
    plan = plan_diagnosis(finding, facts.placement.node_names, idle_nodes=idle_nodes, is_repeated=repeated)
    return Examination(facts, diagnosis, finding, plan, outcome)


def conclude(
    examination: Examination,
    state: RecoveryState,
    settings: RecoverySettings,
    results: Sequence[CheckResult] | None = None,
) -> Conclusion:
    """Decide, and write the page.

    Args:
        results: of the plan's checks; ``None`` = they have not been run.
    """
    finding, facts, plan = examination.finding, examination.facts, examination.plan
    checks = read_checks(plan, results, finding, state.now) if results is not None else None
    decision = decide(finding, facts, state, settings, checks)
    return Conclusion(examination, checks, decision, report_page(facts, finding, decision, plan, checks))


def lines_around(diagnosis: Diagnosis) -> list[tuple[int | None, str]]:
    """The ~300 lines around the first true error, as number and text (SchedMate section 13: 200 to 500)."""
    offset, root = diagnosis.root_offset, diagnosis.root_line
    if offset is None:
        return []
    path = Path(diagnosis.file)
    labels = labels_of(path)
    before: deque[RawLine] = deque(maxlen=_WINDOW_BEFORE)
    after: list[RawLine] = []
    for raw in _lines_near(path, offset):
        if raw.offset < offset:
            before.append(raw)
        elif len(after) < _WINDOW_AFTER:
            after.append(raw)
        else:
            break
    lines = [*before, *after]
    numbers = [None if root is None else root - len(before) + i for i in range(len(lines))]
    return [
        (n, shown.text) for n, raw in zip(numbers, lines, strict=True) for shown in normalise(raw, labels, newest=1)
    ]


def _lines_near(path: Path, offset: int) -> Iterator[RawLine]:
    """Lines from some way before an offset on; of a compressed file, all of them."""
    if compression_of(path) is not None:
        yield from iter_raw_lines(path)
        return
    start = max(0, offset - _WINDOW_BYTES)
    splitter = LineSplitter(SplitterState(start, None))
    lines = splitter.feed(FileSource(path).read_at(start, 2 * _WINDOW_BYTES))
    yield from lines[1:] if start else lines


def _with_answer(diagnosis: Diagnosis, outcome: LanguageOutcome, tools: Tools) -> Diagnosis:
    answer = outcome.classified
    assert answer is not None
    if diagnosis.classified.source is Source.RULE and diagnosis.classified.confidence >= answer.confidence:
        return diagnosis
    advised = answer.advises_restart(diagnosis.ending, tools.thresholds)
    return replace(diagnosis, classified=answer, is_restart_advised=advised)
