"""What the field readers share: one job's launch, settings and walk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lucid_pipelines.advisor.evaluator.machine import Machine
from lucid_pipelines.advisor.evaluator.trace import CallEvent, Trace
from lucid_pipelines.advisor.evaluator.values import Lit, Value
from lucid_pipelines.advisor.fields.settings_table import SettingsTable
from lucid_pipelines.advisor.launch.entry import Entry
from lucid_pipelines.advisor.launch.launchers import Launch
from lucid_pipelines.advisor.metadata import Evidence, FieldName, FieldValue, Missing, unicode_text


@dataclass(slots=True)
class JobFacts:
    """Everything that is known about one job before its fields are read.

    Attributes:
        complete: the walk reached the end of the program.
        requested_gpus, requested_nodes: what the submission asks for; ``None`` = not said.
    """

    launch: Launch | None
    entry: Entry | None
    table: SettingsTable
    machine: Machine | None = None
    main_names: Mapping[str, Value] = field(default_factory=dict)
    complete: bool = False
    command_words: list[Lit] = field(default_factory=list)
    """The launch line as it was given, before scripts and launchers were followed."""
    project_title: Lit | None = None
    """First heading of the snapshot's README."""
    requested_gpus: Lit | None = None
    requested_nodes: Lit | None = None
    found: dict[FieldName, FieldValue] = field(default_factory=dict)
    missing: dict[FieldName, Missing] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def trace(self) -> Trace:
        return self.machine.trace if self.machine is not None else _EMPTY

    def put(self, name: FieldName, value: FieldValue | Missing | None) -> None:
        """Keep a field or the reason why it is missing."""
        if isinstance(value, FieldValue):
            shown = unicode_text(value.value) if isinstance(value.value, str) else value.value
            self.found[name] = replace(value, value=shown, evidence=_shown(value.evidence))
            self.missing.pop(name, None)
        elif isinstance(value, Missing) and name not in self.found:
            self.missing[name] = Missing(unicode_text(value.reason), _shown(value.evidence))

    def calls(self, *endings: str) -> list[CallEvent]:
        """Noted library calls whose last name is one of these."""
        return [event for event in self.trace.calls if last_name(event.path) in endings]

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Whether the source of a module that was walked through contains a pattern."""
        machine = self.machine
        if machine is None:
            return False
        texts = (machine.tree.read_text(module.file) for module in machine.modules.walked())
        return any(text is not None and pattern.search(text) is not None for text in texts)


def _shown(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    if all(item.file.isascii() and (item.name or "").isascii() and (item.text or "").isascii() for item in evidence):
        return evidence
    return tuple(
        replace(
            item,
            file=unicode_text(item.file),
            name=None if item.name is None else unicode_text(item.name),
            text=None if item.text is None else unicode_text(item.text),
        )
        for item in evidence
    )


_EMPTY = Trace()


def last_name(path: str) -> str:
    """The last part of a dotted name, without marks of calls and partials."""
    return path.removesuffix("<partial>").removesuffix(".__init__").removesuffix("()").rpartition(".")[2]
