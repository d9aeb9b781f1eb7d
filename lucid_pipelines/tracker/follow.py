"""Following a growing log from pass to pass: what is new since the last look, and what was learnt about it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.logs import LogSource, extent_of
from lucid_pipelines.ports import LanguageModel
from lucid_pipelines.tracker.asking import LearnedTemplate, ModelUse
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.progress import Progress, StepSample
from lucid_pipelines.tracker.tracking import ENOUGH_READINGS, HEAD_BYTES, TAIL_BYTES, track_extent

_IDENTITY_BYTES = 256
COUNT_LINES_BELOW_BYTES = 1 << 20
"""A pass over many jobs does not count the lines of long logs; evidence then carries byte offsets only."""


@dataclass(frozen=True, slots=True)
class FollowState:
    """What a tracker keeps of one log between passes; small, and safe to store.

    Attributes:
        size: bytes that the log had at the last look.
        identity: digest of its first bytes: another log in its place is noticed.
        sampled_to: offset of the newest reading that was handed out.
        template: names that a language model gave to this log's numbers; it is not asked again.
        was_asked: whether a model answered, with or without success; a server that failed may be asked again.
        progress: the last answer, given again while the log has not grown.
    """

    size: int = 0
    identity: str = ""
    sampled_to: int = -1
    template: LearnedTemplate | None = None
    was_asked: bool = False
    progress: Progress | None = None

    def to_json(self) -> dict[str, object]:
        """Without the last answer: it is found again."""
        return {
            "size": self.size,
            "identity": self.identity,
            "sampled_to": self.sampled_to,
            "template": self.template.to_json() if self.template else None,
            "was_asked": self.was_asked,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, object]) -> FollowState:
        """The inverse of ``to_json``. Raises ``InputError``."""
        size, identity, sampled_to = row.get("size"), row.get("identity"), row.get("sampled_to")
        if not isinstance(size, int) or not isinstance(identity, str) or not isinstance(sampled_to, int):
            raise InputError(f"the state of a followed log has size, identity and sampled_to; got {dict(row)!r}")
        template = row.get("template")
        learned = LearnedTemplate.from_json(template) if isinstance(template, Mapping) else None
        return cls(size, identity, sampled_to, learned, bool(row.get("was_asked")))


@dataclass(frozen=True, slots=True)
class Followed:
    """One look at a log.

    Attributes:
        progress: the answer.
        new_samples: readings not handed out before, oldest first; of a job that reports more often than 64 times
            between two looks, the newest.
        state: to be given to the next look.
        restarted: the log was truncated or replaced since the last look.
        model_use: what a language model was asked and how that ended.
    """

    progress: Progress
    new_samples: tuple[StepSample, ...]
    state: FollowState
    restarted: bool
    model_use: ModelUse


def follow(
    source: LogSource,
    state: FollowState | None = None,
    *,
    model: LanguageModel | None = None,
    parser: RecordParser | None = None,
) -> Followed:
    """Look at a log again.

    The answer is the same as if the log had never been looked at before: only the samples, and whether a
    language model is asked, depend on ``state``.

    Raises:
        NotFoundError, ExternalError: the log is not there or cannot be read.
    """
    state = state or FollowState()
    size = source.size()
    identity = _identity(source, min(size, _IDENTITY_BYTES))
    known = _identity(source, min(state.size, _IDENTITY_BYTES)) if state.size else ""
    restarted = bool(state.size) and (size < state.size or known != state.identity)
    if restarted:
        state = FollowState()
    if state.progress is not None and size == state.size:
        return Followed(state.progress, (), state, restarted, ModelUse())
    progress, use, template = Progress(fallback_reason="the log is empty"), ModelUse(), state.template
    may_ask = model if not state.was_asked else None
    for tail_bytes in TAIL_BYTES:
        extent = extent_of(
            source, head_bytes=HEAD_BYTES, tail_bytes=tail_bytes, count_lines_below_bytes=COUNT_LINES_BELOW_BYTES
        )
        is_last = extent.tail_offset == 0 or tail_bytes == TAIL_BYTES[-1]
        tracked = track_extent(extent, parser=parser, template=template, model=may_ask if is_last else None)
        progress, use = tracked.progress, use.plus(tracked.model_use)
        template = tracked.template or template
        if is_last or (progress.step is not None and tracked.readings >= ENOUGH_READINGS):
            break
    new = tuple(sample for sample in progress.samples if sample.offset > state.sampled_to)
    sampled_to = max([state.sampled_to, *(sample.offset for sample in new)])
    after = FollowState(size, identity, sampled_to, template, state.was_asked or use.asked > use.failed, progress)
    return Followed(progress, new, after, restarted, use)


def _identity(source: LogSource, length: int) -> str:
    return hashlib.blake2b(source.read_at(0, length), digest_size=8).hexdigest()
