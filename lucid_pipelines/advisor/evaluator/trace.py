"""What an evaluation leaves behind: the facts that the field readers look at afterwards."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from lucid_pipelines.advisor.evaluator.values import Cls, Lit, Obj, Site, Sym, Value

MAX_EVENTS = 20_000
MAX_ASSIGNMENTS_PER_NAME = 12


@dataclass(slots=True)
class CallEvent:
    """A call of a library object: ``path`` is its dotted name."""

    path: str
    args: list[Value]
    kwargs: dict[str, Value]
    site: Site
    result: Value | None = None


@dataclass(slots=True)
class InstanceEvent:
    """An instance of a class of the snapshot, with its constructor's arguments by name."""

    cls: Cls
    arguments: dict[str, Value]
    site: Site
    instance: Obj
    target: str | None = None


@dataclass(slots=True)
class LoopEvent:
    """A ``for`` or ``while`` loop. ``iterable`` is the evaluated iterable or condition."""

    target: str
    iterable: Value
    site: Site
    node: ast.For | ast.AsyncFor | ast.While


@dataclass(slots=True)
class SettingsEvent:
    """A container of settings: parsed options, a configuration file, a dataclass instance.

    Attributes:
        kind: which library or construct made it, e.g. ``argparse``, ``yaml``, ``dataclass``.
        initial: the scalars as they were when it was made, by dotted path.
    """

    kind: str
    container: Value
    site: Site
    initial: dict[str, Lit] = field(default_factory=dict)


@dataclass(slots=True)
class Assignment:
    """One variable, attribute or parameter that took a known scalar."""

    value: Lit
    site: Site
    scope: object
    owner: str = ""
    certain: bool = True


@dataclass(slots=True)
class Trace:
    """Everything noted during one evaluation, bounded."""

    calls: list[CallEvent] = field(default_factory=list)
    instances: list[InstanceEvent] = field(default_factory=list)
    loops: list[LoopEvent] = field(default_factory=list)
    settings: list[SettingsEvent] = field(default_factory=list)
    assignments: dict[str, list[Assignment]] = field(default_factory=dict)
    symbols: dict[str, list[Sym]] = field(default_factory=dict)
    """Unknown values that depend on the number of processes or devices, by the name they took."""
    launches: list[tuple[list[Lit], Site]] = field(default_factory=list)
    imports: dict[str, Site] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    overwritten: set[str] = field(default_factory=set)
    """Keys of unknown containers that the program sets, e.g. the ``lr`` of an optimiser's groups."""
    parameters: dict[str, list[Lit]] = field(default_factory=dict)
    """Scalars that functions of the program got for parameters of watched names."""
    declared: dict[str, Lit] = field(default_factory=dict)
    """Defaults of options, also of those that were given another value."""

    def call(self, event: CallEvent) -> None:
        if len(self.calls) < MAX_EVENTS:
            self.calls.append(event)

    def instance(self, event: InstanceEvent) -> None:
        if len(self.instances) < MAX_EVENTS:
            self.instances.append(event)

    def name_instance(self, instance: Obj, name: str) -> None:
        """Note the first variable that an instance was assigned to."""
        for event in reversed(self.instances[-40:]):
            if event.instance is instance:
                event.target = event.target or name
                return

    def assign(
        self, name: str, value: Lit, site: Site, scope: object = None, owner: str = "", *, certain: bool = True
    ) -> None:
        """Note that a variable, attribute or parameter took a known scalar.

        Args:
            scope: what tells variables of the same name apart: the function, or the module's names.
            owner: dotted name of the object whose attribute it is.
            certain: it happens in every case, not only in a branch whose condition is unknown.
        """
        kept = self.assignments.setdefault(name, [])
        noted = Assignment(value, site, scope, owner, certain)
        if any(old.site == site and old.value.value == value.value for old in kept):
            return
        if len(kept) >= MAX_ASSIGNMENTS_PER_NAME:
            kept[-1] = noted
        else:
            kept.append(noted)

    def assign_symbol(self, name: str, value: Sym) -> None:
        """Note that a variable took an unknown value that depends on processes or devices."""
        kept = self.symbols.setdefault(name, [])
        if len(kept) < MAX_ASSIGNMENTS_PER_NAME:
            kept.append(value)

    def gap(self, what: str) -> None:
        """Count something that could not be evaluated."""
        self.gaps[what] = self.gaps.get(what, 0) + 1
