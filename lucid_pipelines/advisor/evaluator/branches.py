"""Running alternatives whose condition is unknown, and joining what they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.operators import equal
from lucid_pipelines.advisor.evaluator.values import Frame, Lit, Seq, Sym, Value

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine, Signal

ABSENT = object()


class Journal:
    """Old contents of what one alternative changes, so that it can be undone and compared."""

    def __init__(self, outer: Journal | None) -> None:
        self.outer = outer
        self._names: dict[tuple[int, Any], tuple[dict[Any, Value], Any, object]] = {}
        self._sequences: dict[int, tuple[Seq, list[Value]]] = {}
        self.fresh: dict[int, object] = {}
        """Dictionaries and sequences that were made since: nobody sees their old contents."""

    def note(self, names: dict[Any, Value], name: Any) -> None:
        if id(names) in self.fresh:
            return
        key = (id(names), name)
        if key not in self._names:
            self._names[key] = (names, name, names.get(name, ABSENT))

    def note_sequence(self, value: Seq) -> None:
        if id(value) not in self._sequences and id(value) not in self.fresh:
            self._sequences[id(value)] = (value, list(value.items))

    def undo(self) -> Effects:
        """Restore everything and return what had been written."""
        written = Effects()
        for key, (names, name, old) in self._names.items():
            written.names[key] = (names, name, names.get(name, ABSENT))
            if old is ABSENT:
                names.pop(name, None)
            else:
                names[name] = old  # type: ignore[assignment]
        for key, (sequence, old_items) in self._sequences.items():
            written.sequences[key] = (sequence, sequence.items)
            sequence.items = old_items
        return written


class Effects:
    """What one alternative wrote."""

    def __init__(self) -> None:
        self.names: dict[tuple[int, Any], tuple[dict[Any, Value], Any, object]] = {}
        self.sequences: dict[int, tuple[Seq, list[Value]]] = {}


def either(values: Sequence[Value]) -> Value:
    """One value for several possible ones: itself when they agree, else a symbol that lists them."""
    first = values[0]
    if all(other is first or equal(first, other) is True for other in values[1:]):
        return first
    options: list[Value] = []
    tags: frozenset[str] = frozenset({"either"})
    for value in values:
        if isinstance(value, Sym):
            tags |= value.tags
            if value.path == "either":
                options.extend(value.args)
                continue
        options.append(value)
    return Sym("either", options[:8], tags=tags)


Alternative = Callable[[], "Signal | None"]


def run_alternatives(
    machine: Machine, frame: Frame, alternatives: Sequence[Alternative], raised: type[Exception]
) -> Signal | None:
    """Run each alternative from the same state and join the results.

    An alternative that raises did not happen. When some return and others go on, the returned values
    are kept aside in the frame and the joined state of the others goes on.
    """
    outcomes: list[tuple[Effects, Signal | None]] = []
    failure: Exception | None = None
    outer = machine.journal
    for alternative in alternatives:
        journal = Journal(outer)
        machine.journal = journal
        try:
            signal = alternative()
        except raised as error:
            failure = error
            journal.undo()
            continue
        finally:
            machine.journal = outer
        outcomes.append((journal.undo(), signal))
    if not outcomes:
        assert failure is not None
        raise failure
    going_on = [(effects, signal) for effects, signal in outcomes if signal is None]
    returned = [signal for _, signal in outcomes if signal is not None and signal.kind == "return"]
    if not going_on:
        merge(machine, [effects for effects, _ in outcomes])
        left = next((signal for _, signal in outcomes if signal is not None and signal.kind != "return"), None)
        if left is not None:
            frame.maybe_returns.extend(signal.value for signal in returned)
            return left
        returned[0].value = either([signal.value for signal in returned])
        return returned[0]
    frame.maybe_returns.extend(signal.value for signal in returned)
    merge(machine, [effects for effects, _ in going_on])
    return None


def merge(machine: Machine, all_effects: Sequence[Effects]) -> None:
    """Write the joined effects of alternatives that start from the present state."""
    keys: dict[tuple[int, Any], tuple[dict[Any, Value], Any]] = {}
    sequences: dict[int, Seq] = {}
    for effects in all_effects:
        keys.update({key: (names, name) for key, (names, name, _) in effects.names.items()})
        sequences.update({key: sequence for key, (sequence, _) in effects.sequences.items()})
    for key, (names, name) in keys.items():
        values = [effects.names[key][2] if key in effects.names else names.get(name, ABSENT) for effects in all_effects]
        present = [value for value in values if isinstance(value, Value)]
        if not present:
            if name in names:
                machine.put(names, name, Sym("maybe removed"))
            continue
        # A name that only one alternative binds has that value wherever it is used.
        machine.put(names, name, either(present))
    for key, sequence in sequences.items():
        machine.touch(sequence)
        versions = [
            effects.sequences[key][1] if key in effects.sequences else sequence.items for effects in all_effects
        ]
        longest = max(versions, key=len)
        if any(len(version) != len(longest) for version in versions):
            sequence.open = True
        sequence.items = list(longest)


def is_same_scalar(left: Value, right: Value) -> bool:
    """Whether two values are the same known scalar."""
    return isinstance(left, Lit) and isinstance(right, Lit) and left.value == right.value
