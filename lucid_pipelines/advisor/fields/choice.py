"""Candidates for a field, how they are ranked, and how a chosen one becomes a field with evidence."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lucid_pipelines.advisor.evaluator.values import Lit, Sym, Value
from lucid_pipelines.advisor.fields.settings_table import Setting, SettingsTable, Trust, is_other_phase, normal_name
from lucid_pipelines.advisor.metadata import Evidence, FieldValue, Missing, Scalar, SourceKind

MAX_EVIDENCE = 4
CONFIDENCE: dict[SourceKind, float] = {
    SourceKind.LIBRARY: 0.75,
    SourceKind.DEFAULT: 0.9,
    SourceKind.CODE: 0.85,
    SourceKind.CONFIG: 0.95,
    SourceKind.COMMAND_LINE: 0.98,
    SourceKind.ENVIRONMENT: 0.95,
    SourceKind.LAUNCHER: 0.98,
    SourceKind.COMPUTED: 0.85,
    SourceKind.LANGUAGE_MODEL: 0.5,
}
"""How sure a reading of each kind is, when nothing contradicts it."""


@dataclass(slots=True)
class Pick:
    """A chosen scalar with what supports it."""

    value: Scalar
    lit: Lit
    confidence_frac: float
    setting: Setting | None = None


Accept = Callable[[object], "Scalar | None"]


def positive_number(value: object) -> float | int | None:
    """A finite number above zero, read from text too; ``None`` otherwise."""
    number = as_number(value)
    return number if number is not None and number > 0 else None


def positive_whole(value: object) -> int | None:
    """A whole number above zero; ``16.0`` and ``1e6`` count."""
    number = as_number(value)
    if number is None or number <= 0 or number != int(number):
        return None
    return int(number)


def as_number(value: object) -> float | int | None:
    """A finite number from a number or its text; booleans are no numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) or len(text) > 30:
            return None
        value = float(text) if re.search(r"[.eE]", text) else int(text)
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    return None


def pick_setting(
    table: SettingsTable,
    names: Sequence[str],
    accept: Accept,
    *,
    avoid: re.Pattern[str] | None = None,
    avoid_path: re.Pattern[str] | None = None,
    use_final: bool = False,
    minimum_trust: Trust = Trust.PARAMETER,
) -> Pick | Missing | None:
    """The best setting with one of these names.

    What is said at launch stands above configuration files, those above the program, libraries last;
    then comes the order of ``names`` and how surely the program uses the setting.

    Returns:
        the pick, :class:`Missing` when two settings of equal standing differ, ``None`` when there is none.
    """
    ranked: list[tuple[tuple[int, ...], Setting, Scalar]] = []
    for place, name in enumerate(names):
        for setting in table.named(name):
            if is_other_phase(setting.path) or setting.trust < minimum_trust:
                continue
            if avoid is not None and avoid.search(setting.name):
                continue
            if avoid_path is not None and avoid_path.search(normal_name(setting.path)):
                continue
            source = _source(setting, accept, use_final)
            value = accept(source.value)
            if value is None:
                continue
            # A variable of the program counts as such only when it was set from a configuration or at launch.
            followed = 1 if setting.trust > Trust.ASSIGNMENT or setting.level == 2 else 0
            written = int(source.origin is None or source.origin.kind is not SourceKind.COMPUTED)
            if not written and root_names(source) & COUNTERS:
                # What depends on the step of the moment is no setting.
                continue
            named = int(setting.trust is not Trust.PARAMETER)
            ranked.append(((followed, setting.level, written, named, -place, int(setting.trust)), setting, value))
    broken = _not_finite(table, names)
    if broken is not None and (not ranked or max(key[1] for key, _, _ in ranked) <= broken.level):
        return Missing(f"{broken.path} = {broken.initial.value}: no usable number", (evidence_of(broken.initial),))
    if not ranked:
        return None
    best = max(key for key, _, _ in ranked)
    top = [(setting, value) for key, setting, value in ranked if key == best]
    values = {value for _, value in top}
    if len(values) > 1:
        top = _prefer_chosen(table, top)
        values = {value for _, value in top}
    if len(values) > 1:
        top = _prefer_training(top)
        values = {value for _, value in top}
    if len(values) > 1:
        shown = ", ".join(sorted(str(value) for value in values)[:4])
        evidence = tuple(evidence_of(setting.initial) for setting, _ in top[:MAX_EVIDENCE])
        return Missing(f"several settings of equal standing: {shown}", evidence)
    setting, value = top[0]
    source = _source(setting, accept, use_final)
    others = {value for key, _, value in ranked if key[0] == best[0] and key[1] == best[1]}
    confidence = CONFIDENCE[setting.kind] * _TRUST_FACTOR[setting.trust]
    if len(others) > 1:
        confidence *= 0.9
    return Pick(value, source, round(confidence, 3), setting)


_NO_NUMBER = re.compile(r"[-+]?(nan|inf(inity)?)", re.IGNORECASE)


def _not_finite(table: SettingsTable, names: Sequence[str]) -> Setting | None:
    """A setting that is said to be no number or endless: no weaker one stands in for it."""
    for setting in table.named(*names):
        value = setting.initial.value
        text = value.strip() if isinstance(value, str) else value
        is_broken = (isinstance(text, float) and not math.isfinite(text)) or (
            isinstance(text, str) and _NO_NUMBER.fullmatch(text) is not None
        )
        if is_broken and setting.level >= 2 and setting.trust >= Trust.LOOSE:
            return setting
    return None


def refused_value(table: SettingsTable, names: Sequence[str]) -> Missing | None:
    """The reason when such a setting is said, but its number cannot be used: below zero, or zero."""
    for setting in table.named(*names):
        number = as_number(setting.initial.value)
        if number is not None and number <= 0 and number != -1 and setting.level == 3 and setting.trust >= Trust.LOOSE:
            reason = f"{setting.path} = {setting.initial.value}: no usable number"
            return Missing(reason, (evidence_of(setting.initial),))
    return None


COUNTERS = frozenset(
    {"n_steps", "step", "current_step", "cur_step", "epoch", "iteration", "it", "global_step", "n_current_steps"}
    | {"iter_num", "step_num", "cur_iter", "current_iter", "curr_step", "i", "t", "last_epoch", "num_updates"}
)
"""Names that count what has been done so far."""
_TRUST_FACTOR = {
    Trust.PARSED: 1.0,
    Trust.INSTANCE: 0.95,
    Trust.LOOSE: 0.95,
    Trust.ASSIGNMENT: 0.85,
    Trust.PARAMETER: 0.8,
}


def _source(setting: Setting, accept: Accept, use_final: bool) -> Lit:
    """The value as it was set, or as the program leaves it: then also when it was set to nothing."""
    if setting.final is not None and (use_final or accept(setting.initial.value) is None):
        return setting.final
    return setting.initial


def _prefer_chosen(table: SettingsTable, top: list[tuple[Setting, Scalar]]) -> list[tuple[Setting, Scalar]]:
    """Among equals: settings in a section that the launch line names (``CartPole-v1: …``)."""
    chosen = [pair for pair in top if set(pair[0].path.split(".")[:-1]) & table.launch_values]
    return chosen or top


def _prefer_training(top: list[tuple[Setting, Scalar]]) -> list[tuple[Setting, Scalar]]:
    """Among equals: settings under ``train``, then the shallowest path."""
    training = [pair for pair in top if re.search(r"train|optim|solver|fit", normal_name(pair[0].path))]
    if training and len(training) < len(top):
        top = training
    depth = min(pair[0].path.count(".") for pair in top)
    return [pair for pair in top if pair[0].path.count(".") == depth]


# ---------------------------------------------------------------------- origins


def roots(value: Value | None, limit: int = 40) -> list[Lit]:
    """The written scalars that a value was computed from, in order; itself when it was written as it is."""
    found: list[Lit] = []
    todo: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while todo and len(seen) < 200:
        current = todo.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Lit):
            inputs = current.origin.inputs if current.origin is not None else ()
            if inputs:
                todo.extend(inputs)
            elif len(found) < limit:
                found.append(current)
        elif isinstance(current, Sym):
            todo.extend(current.args)
    return found


def depends_on(value: Value | None, tag: str) -> bool:
    """Whether a value depends on something unknown of this kind."""
    return isinstance(value, Sym) and tag in value.tags


def root_names(value: Value | None) -> set[str]:
    """Normalised names of the scalars that a value comes from, intermediate names included."""
    names: set[str] = set()
    todo: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while todo and len(seen) < 200:
        current = todo.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Lit) and current.origin is not None:
            if current.origin.name:
                names.add(normal_name(current.origin.name))
            todo.extend(current.origin.inputs)
        elif isinstance(current, Sym):
            todo.extend(current.args)
    return names


def named_root(value: Value | None, names: Iterable[str]) -> Lit | None:
    """The written scalar with one of these names that a value comes from."""
    wanted = set(names)
    for lit in roots(value):
        if lit.origin is not None and lit.origin.name and normal_name(lit.origin.name) in wanted:
            return lit
    return None


def evidence_of(lit: Lit) -> Evidence:
    """Where a scalar is written."""
    origin = lit.origin
    text = repr(lit.value)
    shown = text if len(text) <= 120 else text[:117] + "…"
    if origin is None:
        return Evidence(SourceKind.CODE, "<unknown>", None, None, shown)
    return Evidence(origin.kind, origin.file, origin.line, origin.name, shown)


def formula_of(lit: Lit) -> str | None:
    """How a scalar was computed, as its source says; ``None`` when it was written as it is."""
    origin = lit.origin
    if origin is None or (origin.node is None and not origin.inputs):
        return None
    if origin.node is None:
        return None
    try:
        return ast.unparse(origin.node)[:200]
    except (RecursionError, ValueError, AttributeError):
        return None


def kind_of(lit: Lit) -> SourceKind:
    """The kind of source that decides a scalar: for a computed one the strongest of its inputs."""
    kinds = [root.origin.kind for root in roots(lit) if root.origin is not None]
    if not kinds:
        return SourceKind.CODE
    return max(kinds, key=lambda kind: kind.rank)


def to_field(
    value: Scalar,
    lits: Sequence[Lit],
    confidence_frac: float,
    formula: str | None = None,
    kind: SourceKind | None = None,
) -> FieldValue:
    """A field with the evidence of the scalars that it rests on."""
    evidence: list[Evidence] = []
    for lit in lits:
        for source in [lit, *roots(lit)][: MAX_EVIDENCE + 1]:
            item = evidence_of(source)
            if item not in evidence and len(evidence) < MAX_EVIDENCE:
                evidence.append(item)
    decided = kind or (max((kind_of(lit) for lit in lits), key=lambda each: each.rank) if lits else SourceKind.CODE)
    return FieldValue(value, decided, round(min(confidence_frac, 1.0), 3), tuple(evidence), formula)


def pick_to_field(pick: Pick) -> FieldValue:
    """A picked setting as a field."""
    return to_field(pick.value, [pick.lit], pick.confidence_frac, formula_of(pick.lit))
