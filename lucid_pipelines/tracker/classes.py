"""Classes of log lines: what a line is about, worked out once for each form of line and then remembered.

Rules decide what has a clear mark (errors, warnings, checkpoints) and what reports numbers (by the same reading of
names and words that the extraction uses); a small text model decides the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum

from lucid_pipelines.logs import detect_labels_in, frames, split_prefix
from lucid_pipelines.logs.prefixes import NO_LABELS, Labels
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.forms import form_of
from lucid_pipelines.tracker.line_model import LineModel, load_line_model
from lucid_pipelines.tracker.meaning import Role, meaning
from lucid_pipelines.tracker.phase import Phase, phase_of
from lucid_pipelines.tracker.records import Kind, Shape

_FORM_LIMIT = 50_000
MAX_CHARS = 2048


class LineClass(StrEnum):
    """What a line is about."""

    INIT = "init"
    PROGRESS = "progress"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    DATA = "data"
    BUILD = "build"
    """Compilation, tuning of kernels, capture of graphs."""
    WARNING = "warning"
    ERROR = "error"
    INFO = "info"


class LineClassifier:
    """Classifies lines; the class of a form is worked out at its first line and remembered, in bounded memory."""

    def __init__(self, model: LineModel | None = None, parser: RecordParser | None = None) -> None:
        self._model = model or load_line_model()
        self._parser = parser or RecordParser()
        self._by_form: dict[bytes, LineClass | None] = {}

    def classify(self, text: str) -> LineClass:
        """The class of one display state, without memory."""
        text = text[:MAX_CHARS]
        return _by_mark(text) or _by_numbers(self._parser.parse(text).shape) or self._by_words(text)

    def count(self, chunk: bytes, labels: Labels = NO_LABELS) -> Counter[LineClass]:
        """How many lines of each class a chunk of whole lines has; of a redrawn line the last state counts."""
        by_form = self._by_form
        totals: Counter[LineClass | None] = Counter()
        lines = chunk.split(b"\n")
        forms = [form_of(line) for line in lines]
        try:
            totals.update([by_form[form] for form in forms])
        except KeyError:
            totals.clear()
            for form, line in zip(forms, lines, strict=True):
                known = by_form.get(form, _UNSEEN)
                totals[self._learn(form, line, labels) if known is _UNSEEN else known] += 1  # type: ignore[index]
        del totals[None]
        return Counter({kind: n for kind, n in totals.items() if kind is not None})

    def classify_line(self, line: bytes, labels: Labels = NO_LABELS) -> LineClass | None:
        """The class of a physical line, remembered by its form; ``None`` for one that shows nothing."""
        form = form_of(line)
        return self._by_form[form] if form in self._by_form else self._learn(form, line, labels)

    def _learn(self, form: bytes, line: bytes, labels: Labels) -> LineClass | None:
        if len(self._by_form) >= _FORM_LIMIT:
            self._by_form.clear()
        shown = frames(line[-8192:])
        known = None
        if shown:
            text = shown[-1]
            known = self.classify(text[split_prefix(text, labels).size :])
        self._by_form[form] = known
        return known

    def _by_words(self, text: str) -> LineClass:
        likely = self._model.probabilities(text)
        return LineClass(max(likely, key=lambda name: likely[name]))


def newest_activity(tail: bytes, classifier: LineClassifier, *, lines: int = 40) -> LineClass:
    """What the newest lines of a log tell of: its last line of progress, evaluation, checkpoint, data or compilation.

    ``INFO`` when none of the newest ``lines`` says.
    """
    labels = detect_labels_in(tail)
    for line in reversed(tail.split(b"\n")[-lines:]):
        known = classifier.classify_line(line, labels)
        if known is not None and known in _ACTIVITIES:
            return known
    return LineClass.INFO


_UNSEEN = object()
_ACTIVITIES = (
    LineClass.PROGRESS,
    LineClass.EVALUATION,
    LineClass.CHECKPOINT,
    LineClass.DATA,
    LineClass.BUILD,
)
_ERROR = re.compile(
    r"^\s*Traceback \(most recent call last\)"
    r"|(?:^|[\s:\]])[A-Za-z_.]{0,80}(?:Error|Exception|Interrupt)\b(?::|$)(?!\s*\(ConnectionError)"
    r"|\b(?:FATAL|CRITICAL|PANIC)\b|\[(?:ERROR|E)\b|(?:^|\s|\|)ERROR(?:\s|:|\|)|(?:^|[\s:])error: "
    r"|^\[?(?:rank\d+\]:)?\[?E\d{3,4} \d\d:|\[E [\w.]+:\d+\]"
    r"|\bXid\b|core dumped|\bSegmentation fault\b|\bKilled$|(?:with|return) (?:exit )?code -?[1-9]"
    r"|watchdog caught|uncorrectable|\bCANCELLED\b|failed with error|\bwith error \d"
)
_WARNING = re.compile(
    r"\bWARN(?:ING)?\b|\b[A-Za-z]{0,40}Warning\b|\bwarning\b|\bdeprecated\b"
    r"|^\[?(?:rank\d+\]:)?\[?W\d{3,4} \d\d:|\[W [\w.]+:\d+\]"
    r"|falling back|retrying",
)
_CHECKPOINT = re.compile(
    r"(?i)\b(?:sav(?:e|es|ed|ing)|writ(?:e|es|ing|ten)|stor(?:e|ed|ing)|dump(?:ed|ing)|export(?:ed|ing)|commit(?:ted)?)\b"
    r".{0,60}\b(?:checkpoints?|ckpts?|models?|weights|optimizer|state|snapshot)\b"
    r"|\bcheckpoint\b.{0,60}\b(?:saved|written|stored|ready|done)\b"
)
_BUILD = re.compile(
    r"(?i)\b(?:jit[- ])?compil(?:ing|ation)\b|\bautotun(?:ing|e)\b|\bcaptur(?:ing|ed) .{0,30}graphs?\b|\bnvcc\b|编译"
)
_NUMERIC = (Role.STEP, Role.EPOCH, Role.LOSS, Role.STEP_TIME, Role.STEP_RATE, Role.ITEM_RATE)


def _by_mark(text: str) -> LineClass | None:
    if _ERROR.search(text):
        return LineClass.ERROR
    if _WARNING.search(text):
        return LineClass.WARNING
    if _CHECKPOINT.search(text):
        return LineClass.CHECKPOINT
    return LineClass.BUILD if _BUILD.search(text) else None


def _by_numbers(shape: Shape) -> LineClass | None:
    """What a line with numbers reports, if its numbers have names that tell."""
    fields = shape.fields
    if not fields or any(field.words > 5 for field in fields):
        return None
    meanings = [meaning(field) for field in fields]
    roles = {m.role for m in meanings}
    is_bar = any(field.bar for field in fields)
    fraction = any(f.kind is Kind.FRACTION for f in fields)
    phase = phase_of(shape)
    if phase is Phase.EVALUATION:
        telling = roles & {Role.LOSS, Role.METRIC} or is_bar or (fraction and Role.SHARE in roles)
        return LineClass.EVALUATION if telling else None
    if phase in (Phase.PREPARATION, Phase.TRANSFER, Phase.BUILD):
        return LineClass.DATA if is_bar or fraction or Role.SHARE in roles else None
    if not phase.may_be_training:
        return None
    told = len(roles & set(_NUMERIC))
    if Role.LOSS in roles and roles <= {Role.LOSS, Role.UNNAMED}:
        return LineClass.PROGRESS
    if Role.LOSS in roles and (
        told >= 2 or roles & {Role.LEARNING_RATE, Role.GRADIENT, Role.METRIC} or len(fields) <= 2
    ):
        return LineClass.PROGRESS
    pace = roles & {Role.STEP_TIME, Role.STEP_RATE, Role.ITEM_RATE, Role.REMAINING}
    if (is_bar or roles & {Role.STEP, Role.EPOCH}) and pace:
        return LineClass.PROGRESS
    if Role.STEP in roles and roles & {Role.LEARNING_RATE, Role.GRADIENT, Role.METRIC, Role.ITEMS}:
        return LineClass.PROGRESS
    return None
