"""Play a recorded day again: the recorded inputs through a policy, decision by decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucid_pipelines.control.live_state import Verb, build, perform
from lucid_pipelines.control.recording import decision_to_json, operation_from_json
from lucid_pipelines.domain.decision import Hold
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.policies import Policy
from lucid_pipelines.policies import get as get_policy


@dataclass(frozen=True, slots=True)
class Difference:
    """A pass in which the policy now decides otherwise."""

    at_s: float
    recorded: tuple[dict[str, Any], ...]
    replayed: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class DayReplay:
    """What playing a recording again showed.

    Attributes:
        cut_lines: lines that could not be read: a process died while it wrote.
        differences: at most 100 of them.
    """

    sections: int
    passes: int
    decisions: int
    same: int
    cut_lines: int
    differences: tuple[Difference, ...]


def replay_day(path: Path, policy: Callable[[str, Mapping[str, object]], Policy] | None = None) -> DayReplay:
    """Ask a policy about every recorded pass.

    Args:
        path: a file that ``Recorder`` wrote.
        policy: makes the policy of a section from the recorded name and settings; default: the same one.

    Raises:
        ExternalError: the file cannot be read.
        InputError: it is no recording.
    """
    make = policy or (lambda name, settings: get_policy(name, **settings))
    state: ClusterState | None = None
    chosen: Policy | None = None
    forecast: Forecast | None = None
    sections = passes = decisions = same = 0
    differences: list[Difference] = []
    lines = _Lines(path)
    for line in lines:
        if "policy" in line:
            chosen, state = make(line["policy"], line["settings"]), None
            sections += 1
        for row in line.get("changes", ()):
            operation = operation_from_json(row)
            if operation.verb is Verb.RESET and operation.facts is not None:
                state = build(operation.facts)
            elif state is not None:
                perform(state, operation)
        if "forecast" in line:
            forecast = None if line["forecast"] is None else Forecast(**line["forecast"])
        if state is None or chosen is None:
            raise InputError(f"a recording begins with a policy and a state; this is none: {path}")
        view = state.view(line["at"], forecast=forecast, explain=True, holds=False)
        found = tuple(decision_to_json(d) for d in chosen.decide(view) if not isinstance(d, Hold))
        recorded = tuple(line["decisions"])
        passes += 1
        decisions += len(recorded)
        if _told(found) == _told(recorded):
            same += len(recorded)
        elif len(differences) < 100:
            differences.append(Difference(line["at"], recorded, found))
    return DayReplay(sections, passes, decisions, same, lines.cut, tuple(differences))


class _Lines:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.cut = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        skipping = False
        try:
            with self._path.open(encoding="utf-8") as file:
                for text in file:
                    try:
                        line = json.loads(text)
                    except ValueError:
                        self.cut += 1
                        skipping = True  # what follows rests on what is missing, up to the next section
                        continue
                    if "policy" in line:
                        skipping = False
                    if not skipping:
                        yield line
        except (OSError, UnicodeDecodeError) as error:
            raise ExternalError(f"the recording cannot be read: {self._path}: {error}") from error


def _told(decisions: tuple[dict[str, Any], ...]) -> str:
    """Reasons compare as JSON, like what was written."""
    return json.dumps(decisions, sort_keys=True)
