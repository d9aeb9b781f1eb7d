"""Ways to diagnose a log, to be compared: the handler as it is, parts of it alone, and what the paper does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from lucid_pipelines.failures.calibration import Calibration, Ground
from lucid_pipelines.failures.classify import Classified, classify
from lucid_pipelines.failures.diagnosis import Tools
from lucid_pipelines.failures.locate import Located, locate
from lucid_pipelines.failures.records import Record, line_record
from lucid_pipelines.failures.scan import Judged, scan
from lucid_pipelines.failures.vocabulary import Ending, Role
from lucid_pipelines.logs import detect_labels_in, normalise
from tests.support_failures.reading import raws

_KEYWORDS = re.compile(rb"error|exception|traceback|fail|fatal|abort|killed", re.IGNORECASE)
_CHUNK_LINES = 50


@dataclass(frozen=True, slots=True)
class Answer:
    """What one way of diagnosing says of one log."""

    root_line: int | None
    category: str | None
    component: str | None
    restart: bool
    confidence: float
    ground: Ground | None = None
    support_frac: float | None = None


Method = Callable[[bytes, Tools], Answer]


def whole(data: bytes, tools: Tools, calibration: Calibration | None = None) -> Answer:
    """The handler as it is; with its own table of confidences, or another."""
    located = locate(scan(raws(data), detect_labels_in(data), tools.judge), tools.harmless)
    classified = classify(located, tools.rules, tools.model, tools.thresholds, calibration=calibration)
    return _answer(located, classified, tools)


def rules_alone(data: bytes, tools: Tools) -> Answer:
    return whole(data, replace(tools, model=None))


def text_model_alone(data: bytes, tools: Tools) -> Answer:
    """Located as always; classified by the text model without any rule."""
    located = locate(scan(raws(data), detect_labels_in(data), tools.judge), tools.harmless)
    return _answer(located, classify(located, tools.rules, tools.model, tools.thresholds, use_rules=False), tools)


def last_500_lines(data: bytes, tools: Tools) -> Answer:
    """The paper's baseline: only the last 500 lines are looked at."""
    tail = raws(data)[-500:]
    located = locate(scan(tail, detect_labels_in(data), tools.judge, begins_at_start=False), tools.harmless)
    return _answer(located, classify(located, tools.rules, tools.model, tools.thresholds), tools)


def no_locator(data: bytes, tools: Tools) -> Answer:
    """The first line of the log that looks like an error, whatever happened afterwards."""
    found = scan(raws(data), detect_labels_in(data), tools.judge)
    first = next((item for item in found.judged if item.role in _ERRORS), None)
    return _answer_for(first, tools)


def bisection_alone(data: bytes, tools: Tools) -> Answer:
    """The paper's locator without anything behind it: keyword chunks, plain bisection, first keyword line."""
    lines = raws(data)
    chunks = [lines[i : i + _CHUNK_LINES] for i in range(0, len(lines), _CHUNK_LINES)]
    low, high = 0, len(chunks) - 1
    while low < high:
        middle = (low + high) // 2
        if any(_KEYWORDS.search(line.data) for line in chunks[middle]):
            high = middle
        else:
            low = middle + 1
    hit = next((line for line in chunks[low] if _KEYWORDS.search(line.data)), None) if chunks else None
    if hit is None:
        return Answer(None, None, None, False, 0.0)
    shown = normalise(hit, detect_labels_in(data), newest=1)
    return _answer_for_record(line_record(shown[0], 0, "") if shown else None, tools)


_ERRORS = (Role.ROOT, Role.WEAK, Role.UNKNOWN, Role.CASCADE, Role.CANCEL)
ABLATIONS: dict[str, Method] = {
    "none": whole,
    "no locator": no_locator,
    "last 500 lines": last_500_lines,
    "bisection alone": bisection_alone,
    "rules alone": rules_alone,
    "text model alone": text_model_alone,
}


def _answer(located: Located, classified: Classified, tools: Tools) -> Answer:
    return Answer(
        located.root.record.number if located.root is not None else None,
        classified.category.value if classified.category else None,
        classified.component.value if classified.component else None,
        classified.advises_restart(located.ending, tools.thresholds),
        classified.confidence,
        classified.ground,
        classified.support_frac,
    )


def _answer_for(item: Judged | None, tools: Tools) -> Answer:
    return _answer_for_record(item.record if item is not None else None, tools)


def _answer_for_record(record: Record | None, tools: Tools) -> Answer:
    if record is None:
        return Answer(None, None, None, False, 0.0)
    item = Judged(record, tools.judge.judge(record))
    located = Located(Ending.FAILED, item, "ablation", 1)
    return _answer(located, classify(located, tools.rules, tools.model, tools.thresholds), tools)
