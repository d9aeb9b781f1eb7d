"""The bounded loop: read, think, act, at most so many turns, so long, and so much text (paper section 12, ReAct)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from lucid_pipelines.advisor.agent.actions import ASKED, SCHEMA, Action, ActionKind, Claim, parse_action
from lucid_pipelines.advisor.agent.merge import Rejection, completed
from lucid_pipelines.advisor.agent.prompts import as_text, error_message, first_messages, tool_message
from lucid_pipelines.advisor.agent.tools import Tools, ToolUse
from lucid_pipelines.advisor.metadata import JobMetadata
from lucid_pipelines.advisor.source_tree import ReadLimits, SourceTree
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import LanguageModel

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What one exploration may use.

    Attributes:
        answer_s: time for one answer of the model.
        context_chars: characters of all messages together.
    """

    turns: int = 10
    wall_s: float = 15.0
    answer_s: float = 8.0
    context_chars: int = 40_000
    read: ReadLimits = field(default_factory=lambda: ReadLimits(files=200, total_bytes=16 * 1024 * 1024))


class Stop(StrEnum):
    """Why the loop ended. Only ``FINISHED`` brings claims; otherwise the static answer stands as it is."""

    FINISHED = "finished"
    NOTHING_WANTED = "nothing_wanted"
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_CONTEXT = "out_of_context"
    INVALID = "invalid"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What the model did, for the record.

    Attributes:
        turns: answers that were asked for.
        invalid: answers that were no action.
        uses: every call of a tool, also the refused ones.
        rejections: claims that did not hold, and why.
    """

    stop: Stop
    turns: int
    invalid: int
    wall_s: float
    uses: tuple[ToolUse, ...] = ()
    accepted: int = 0
    rejections: tuple[Rejection, ...] = ()
    detail: str | None = None


@dataclass(slots=True)
class _Run:
    tools: Tools
    messages: list[dict[str, str]]
    turns: int = 0
    invalid: int = 0
    detail: str | None = None


def complete_with_model(
    root: Path,
    command: Sequence[str],
    static: JobMetadata,
    model: LanguageModel,
    limits: AgentLimits | None = None,
    clock: Clock = time.monotonic,
) -> tuple[JobMetadata, AgentReport]:
    """Let a model look for what static reading left open.

    Args:
        root: the snapshot's folder.
        static: what reading the code without a model found; it wins wherever both answer.

    Returns:
        The metadata, with verified claims filled in and disagreements recorded, and what happened. When
        anything goes wrong the metadata is ``static`` itself.
    """
    bounds = limits or AgentLimits()
    started = clock()
    wanted = [name for name in ASKED if name not in static.fields]
    if not wanted:
        return static, AgentReport(Stop.NOTHING_WANTED, 0, 0, clock() - started)
    run = _Run(Tools(SourceTree(root, bounds.read)), first_messages(command, static, wanted))
    stop, claims = _explore(run, model, bounds, started, clock)
    found, accepted, rejections = static, 0, ()
    if stop is Stop.FINISHED:
        found, accepted, rejections = completed(static, claims, run.tools)
    report = AgentReport(
        stop, run.turns, run.invalid, clock() - started, tuple(run.tools.uses), accepted, rejections, run.detail
    )
    return found, report


def _explore(
    run: _Run, model: LanguageModel, bounds: AgentLimits, started: float, clock: Clock
) -> tuple[Stop, tuple[Claim, ...]]:
    failed_before = False
    while run.turns < bounds.turns:
        left_s = bounds.wall_s - (clock() - started)
        if left_s <= 0:
            return Stop.OUT_OF_TIME, ()
        if sum(len(message["content"]) for message in run.messages) > bounds.context_chars:
            return Stop.OUT_OF_CONTEXT, ()
        run.turns += 1
        try:
            answer = model.complete_json(run.messages, SCHEMA, min(left_s, bounds.answer_s))
        except ExternalError as error:
            run.detail = str(error)
            return (Stop.OUT_OF_TIME if clock() - started >= bounds.wall_s else Stop.UNREACHABLE), ()
        try:
            action = parse_action(answer)
        except InputError as error:
            run.invalid += 1
            run.detail = str(error)
            if failed_before:
                return Stop.INVALID, ()
            failed_before = True
            run.messages.append(error_message(str(error)))
            continue
        failed_before = False
        if action.kind is ActionKind.FINISH:
            return Stop.FINISHED, action.claims
        _act(run, action, bounds.turns - run.turns)
    return Stop.OUT_OF_TURNS, ()


def _act(run: _Run, action: Action, turns_left: int) -> None:
    said = {"thought": "", "action": action.kind.value, "path": action.path, "line": action.line, "facts": []}
    if action.kind is ActionKind.FILE_TREE:
        content = run.tools.file_tree(action.path)
    else:
        content = run.tools.file_read(action.path, action.line)
    # The model's own words are not kept: what it copied out of a file would come back as if it were its own.
    run.messages.append({"role": "assistant", "content": as_text(said)})
    run.messages.append(tool_message(action.kind.value, action.path, content, turns_left))
