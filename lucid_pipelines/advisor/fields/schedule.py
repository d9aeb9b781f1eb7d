"""How long a job trains: a number of epochs, steps, tokens, samples or environment steps."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from lucid_pipelines.advisor.evaluator.iterate import range_bounds
from lucid_pipelines.advisor.evaluator.trace import LoopEvent
from lucid_pipelines.advisor.evaluator.values import Lit, Sym, Value
from lucid_pipelines.advisor.fields.choice import (
    Pick,
    as_number,
    evidence_of,
    formula_of,
    named_root,
    pick_setting,
    positive_number,
    positive_whole,
    refused_value,
    root_names,
    roots,
    to_field,
)
from lucid_pipelines.advisor.fields.facts import JobFacts, last_name
from lucid_pipelines.advisor.fields.names import (
    ACCUMULATION,
    DURATIONS,
    ENVIRONMENT_STEPS,
    EPOCHS,
    KIMG,
    SAMPLES,
    STEPS,
    TOKENS,
)
from lucid_pipelines.advisor.fields.settings_table import Trust
from lucid_pipelines.advisor.fields.vocabulary import family_of
from lucid_pipelines.advisor.metadata import FieldName, IterationType, Missing, Scalar

_DURATION = re.compile(r"^\s*([\d_.]+(?:[eE][-+]?\d+)?)\s*(ba|ep|epochs?|e|tok|T|steps?|s|sp|iters?|b)\s*$")
_UNITS = {"ba": IterationType.STEPS, "ep": IterationType.EPOCHS, "epoch": IterationType.EPOCHS,
    "epochs": IterationType.EPOCHS, "e": IterationType.EPOCHS, "tok": IterationType.TOKENS, "T": IterationType.TOKENS,
    "step": IterationType.STEPS, "steps": IterationType.STEPS, "s": IterationType.STEPS, "sp": IterationType.SAMPLES,
    "iter": IterationType.STEPS, "iters": IterationType.STEPS}  # fmt: skip
_AVOID = re.compile(
    r"(warm|decay|eval|val_|valid|save|log|check|ckpt|patience|early|anneal|ramp|print|lr_|step_size|drop|freeze|unfreeze"
    r"|pretrain_epoch|start|resume|cooldown|swa|ema|gradient_acc|accum|rollout|num_steps_per|per_epoch|finetune_ep|sched|milestone|inner|_freq|interval|diffusion|denois|sampling|noise|ddim|generation|critic|disc)"
)
_SCHEDULER = re.compile(r"(^|[._])(lr_)?sched(uler)?s?\.|(^|\.)warmup\.")
"""Sections that say how a rate falls: the steps that they count are those of the schedule."""
_LOOSE_STEPS = frozenset(
    {"num_steps", "n_steps", "steps", "iterations", "n_iter", "niter", "nsteps", "num_step", "num_iter", "max_step"}
)
"""Names that often count something else inside one training step."""


@dataclass(slots=True)
class Candidate:
    """One reading of how long a job trains."""

    kind: IterationType
    value: Scalar
    lits: list[Lit]
    confidence_frac: float
    level: int
    in_loop: bool = False
    formula: str | None = None
    name: str = ""
    trust: int = 3


def read_schedule(facts: JobFacts) -> None:
    """Fill in ``iterations`` and ``iteration_type``."""
    candidates = [each for each in (*_from_calls(facts), *_from_settings(facts)) if not _is_no_limit(each)]
    loops = [each for each in _from_loops(facts) if not _is_no_limit(each)]
    for candidate in candidates:
        candidate.in_loop = any(_same_source(candidate, loop) for loop in loops)
    candidates.extend(loops)
    if _is_reinforcement(facts):
        # Steps of one iteration or update are counted there too: only clear names say how long it trains.
        candidates = [each for each in candidates if each.kind is not IterationType.STEPS or each.name in _CLEAR_STEPS]
    chosen = _choose(candidates)
    if chosen is None:
        unlimited = _unlimited(facts)
        reason = "no limit is set" if unlimited is not None else "no number of epochs or steps was found"
        missing = Missing(reason, (evidence_of(unlimited),) if unlimited is not None else ())
        missing = refused_value(facts.table, (*EPOCHS, *STEPS)) or missing
        facts.put(FieldName.ITERATIONS, missing)
        facts.put(FieldName.ITERATION_TYPE, missing)
        return
    if isinstance(chosen, Missing):
        facts.put(FieldName.ITERATIONS, chosen)
        facts.put(FieldName.ITERATION_TYPE, chosen)
        return
    if chosen.kind is IterationType.STEPS and _steps_environment(chosen, facts):
        chosen.kind = IterationType.ENV_STEPS
    number = positive_number(chosen.value)
    value: Scalar = int(number) if number is not None and number == int(number) else chosen.value
    facts.put(FieldName.ITERATIONS, to_field(value, chosen.lits, chosen.confidence_frac, chosen.formula))
    facts.put(FieldName.ITERATION_TYPE, to_field(chosen.kind.value, chosen.lits, chosen.confidence_frac))


_CLEAR_STEPS = frozenset(
    {"total_steps", "max_steps", "total_iterations", "max_iterations", "max_iters", "train_iters", "total_iters"}
)


def _is_reinforcement(facts: JobFacts) -> bool:
    model = facts.found.get(FieldName.MODEL)
    family = family_of(str(model.value)) if model is not None else None
    return family is not None and family.task == "reinforcement learning"


def _steps_environment(chosen: Candidate, facts: JobFacts) -> bool:
    """Whether each round of the loop that these steps bound takes one step in an environment."""
    for event in facts.trace.loops:
        inner = _innermost(event.iterable)
        lits = [arg for arg in (inner.args if isinstance(inner, Sym) else ()) if isinstance(arg, Lit)]
        places = {
            (root.origin.file, root.origin.line) for lit in lits for root in roots(lit) if root.origin is not None
        }
        mine = {(lit.origin.file, lit.origin.line) for lit in chosen.lits if lit.origin is not None}
        body = event.node.body if isinstance(event.node, ast.For | ast.While | ast.AsyncFor) else []
        if mine & places and any(_is_environment_step(part) for statement in body for part in ast.walk(statement)):
            return True
    return False


def _is_environment_step(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "step":
        return False
    owner = node.func.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return re.search(r"(^|_)envs?($|_)|^environment", name) is not None


def _has_environments(facts: JobFacts) -> bool:
    libraries = {
        "gym",
        "gymnasium",
        "stable_baselines3",
        "dm_control",
        "procgen",
        "ale_py",
        "envpool",
        "brax",
        "dm_env",
        "pettingzoo",
    }
    return bool(libraries & set(facts.trace.imports))


def _choose(candidates: list[Candidate]) -> Candidate | Missing | None:
    if not candidates:
        return None
    environment = [each for each in candidates if each.kind is IterationType.ENV_STEPS]
    if environment:
        return max(environment, key=lambda each: each.level)
    ranked = sorted(candidates, key=_rank, reverse=True)
    best = ranked[0]
    rivals = [
        each
        for each in ranked[1:]
        if _rank(each) == _rank(best) and (each.value != best.value or each.kind is not best.kind)
    ]
    if rivals and rivals[0].kind is best.kind:
        evidence = tuple(evidence_of(lit) for each in (best, rivals[0]) for lit in each.lits[:1])
        return Missing(f"two limits of equal standing: {best.value} and {rivals[0].value}", evidence)
    return best


def _rank(candidate: Candidate) -> tuple[int, int, int, int, int]:
    loose = candidate.name in _LOOSE_STEPS
    kinds = {
        IterationType.KIMG: 5,
        IterationType.TOKENS: 4,
        IterationType.STEPS: 1 if loose else 3,
        IterationType.EPOCHS: 2,
        IterationType.SAMPLES: 2,
    }
    # What is said at launch or in a configuration counts before what a loop of the program shows.
    told = candidate.level if candidate.level >= 2 else 1
    return (told, int(candidate.in_loop), int(candidate.trust > 1), kinds.get(candidate.kind, 0), candidate.level)


def _same_source(candidate: Candidate, loop: Candidate) -> bool:
    mine = {(lit.origin.file, lit.origin.line) for lit in candidate.lits if lit.origin is not None}
    other = {(lit.origin.file, lit.origin.line) for lit in loop.lits if lit.origin is not None}
    return bool(mine & other)


# ---------------------------------------------------------------------- settings


def _from_settings(facts: JobFacts) -> list[Candidate]:
    found: list[Candidate] = []
    groups: tuple[tuple[IterationType, tuple[str, ...]], ...] = (
        (IterationType.EPOCHS, EPOCHS),
        (IterationType.STEPS, STEPS),
        (IterationType.ENV_STEPS, ENVIRONMENT_STEPS),
        (IterationType.KIMG, KIMG),
    )
    for kind, names in groups:
        picked = pick_setting(facts.table, names, _limit, avoid=_AVOID, avoid_path=_SCHEDULER)
        if isinstance(picked, Pick) and _plausible(kind, picked, facts):
            found.append(_candidate(kind, picked))
    found.extend(_large_counts(facts))
    found.extend(_durations(facts))
    return found


def _candidate(kind: IterationType, picked: Pick) -> Candidate:
    level = picked.setting.level if picked.setting is not None else 1
    trust = picked.setting.trust if picked.setting is not None else Trust.ASSIGNMENT
    if trust <= Trust.ASSIGNMENT and level == 3:
        level = 1
    name = picked.setting.name if picked.setting is not None else ""
    return Candidate(
        kind,
        picked.value,
        [picked.lit],
        picked.confidence_frac,
        level,
        formula=formula_of(picked.lit),
        name=name,
        trust=int(trust),
    )


def _limit(value: object) -> float | int | None:
    number = positive_number(value)
    return None if number is None or number >= 1e16 else number


_TIMESTEPS = frozenset({"n_timesteps", "num_timesteps", "max_timesteps"})
"""Names that count the steps of a diffusion where there is no environment."""
_FEWEST_FRAMES = 1_000
"""Fewer frames are those of one observation, not of a training."""


def _plausible(kind: IterationType, picked: Pick, facts: JobFacts) -> bool:
    setting = picked.setting
    number = float(picked.value)
    if setting is None:
        return False
    if kind is IterationType.EPOCHS and number > 1e6:
        return False
    if (
        kind is IterationType.ENV_STEPS
        and "frames" in setting.name
        and (number < _FEWEST_FRAMES or not (_is_reinforcement(facts) or _has_environments(facts)))
    ):
        return False
    if (
        kind is IterationType.ENV_STEPS
        and setting.name in _TIMESTEPS
        and setting.level < 2
        and not (_is_reinforcement(facts) or _has_environments(facts))
    ):
        return False
    if setting.name == "epoch" and (setting.trust is not Trust.PARSED or setting.level < 2):
        return False
    if setting.trust <= Trust.ASSIGNMENT and (setting.name in _LOOSE_STEPS or number <= 1):
        return False
    # A number of steps that is computed from the epochs says nothing new.
    computed = root_names(setting.initial) & set(EPOCHS)
    return not (
        kind is IterationType.STEPS
        and computed
        and setting.initial.origin is not None
        and setting.initial.origin.inputs
    )


def _large_counts(facts: JobFacts) -> list[Candidate]:
    found: list[Candidate] = []
    for kind, names, least in ((IterationType.TOKENS, TOKENS, 1e8), (IterationType.SAMPLES, SAMPLES, 1e5)):
        picked = pick_setting(
            facts.table, names, lambda value, least=least: _at_least(value, least), minimum_trust=Trust.LOOSE
        )
        if isinstance(picked, Pick) and picked.setting is not None and picked.setting.level >= 1:
            found.append(_candidate(kind, picked))
    return found


def _at_least(value: object, least: float) -> float | int | None:
    number = _limit(value)
    return number if number is not None and number >= least else None


def _durations(facts: JobFacts) -> list[Candidate]:
    """``10ba``, ``3ep``, ``4e12T``: a number with its unit."""
    picked = pick_setting(
        facts.table, DURATIONS, lambda value: value if isinstance(value, str) and _DURATION.match(value) else None
    )
    if not isinstance(picked, Pick):
        return []
    match = _DURATION.match(str(picked.value))
    number = as_number(match.group(1)) if match is not None else None
    if match is None or number is None:
        return []
    candidate = _candidate(_UNITS.get(match.group(2), IterationType.STEPS), picked)
    candidate.value = int(number) if number == int(number) else number
    candidate.level = max(candidate.level, 2)
    return [candidate]


NO_EPOCHS = 99_999
"""So many epochs stand for no limit: the run ends by something else."""


def _is_no_limit(candidate: Candidate) -> bool:
    number = positive_number(candidate.value)
    return candidate.kind is IterationType.EPOCHS and number is not None and number >= NO_EPOCHS


def _unlimited(facts: JobFacts) -> Lit | None:
    for setting in facts.table.named(*EPOCHS):
        number = positive_number(setting.initial.value)
        if setting.level >= 1 and number is not None and number >= NO_EPOCHS:
            return setting.initial
    for setting in facts.table.named(*EPOCHS[:4], *STEPS[:8]):
        if setting.trust >= Trust.INSTANCE and setting.initial.value is None:
            return setting.initial
    return None


# ---------------------------------------------------------------------- calls


def _from_calls(facts: JobFacts) -> list[Candidate]:
    """``model.fit(epochs=…)``, ``learn(total_timesteps=…)``, ``fit_one_cycle(n)``, ``Trainer(max_duration=…)``."""
    found: list[Candidate] = []
    for event in facts.trace.calls:
        last = last_name(event.path)
        if last in ("fit", "fit_generator"):
            value = event.kwargs.get("epochs") or event.kwargs.get("nb_epoch")
            found.extend(_as_candidate(IterationType.EPOCHS, value, 0.9))
        elif last in ("fit_one_cycle", "fine_tune", "fit_flat_cos") and event.args:
            found.extend(_as_candidate(IterationType.EPOCHS, event.args[0], 0.85))
        elif last == "learn":
            found.extend(
                _as_candidate(
                    IterationType.ENV_STEPS,
                    event.kwargs.get("total_timesteps") or (event.args[0] if event.args else None),
                    0.9,
                )
            )
        elif last in ("TrainSpec",):
            found.extend(_as_candidate(IterationType.STEPS, event.kwargs.get("max_steps"), 0.9))
    return found


def _as_candidate(kind: IterationType, value: Value | None, confidence: float) -> list[Candidate]:
    number = _limit(value.value) if isinstance(value, Lit) else None
    if number is None or not isinstance(value, Lit):
        return []
    source = named_root(value, {*EPOCHS, *STEPS}) or value
    level = 1
    if source.origin is not None:
        level = {"config": 2, "command_line": 3, "environment": 3}.get(source.origin.kind.value, 1)
    return [Candidate(kind, number, [source], confidence, level, True, formula_of(value))]


# ---------------------------------------------------------------------- loops


def _from_loops(facts: JobFacts) -> list[Candidate]:
    found: list[Candidate] = []
    for event in facts.trace.loops:
        kind = _loop_kind(event)
        if kind is None or not _trains(event.node) or root_names(event.iterable) & set(ACCUMULATION):
            continue
        bounds = range_bounds(_innermost(event.iterable))
        if bounds is None:
            found.extend(_resumable(kind, _innermost(event.iterable)))
            continue
        if bounds[2] <= 0:
            continue
        count = len(range(*bounds))
        if count <= 1:
            continue
        inner = _innermost(event.iterable)
        lits = [arg for arg in (inner.args if isinstance(inner, Sym) else ()) if isinstance(arg, Lit)]
        sources = [root for lit in lits if (root := named_root(lit, {*EPOCHS, *STEPS})) is not None] or lits[-1:]
        stop = lits[1] if len(lits) > 1 else lits[0]
        level = 1
        for source in sources[:1]:
            if source.origin is not None:
                level = {"config": 2, "command_line": 3, "environment": 3}.get(source.origin.kind.value, 1)
        start_text = ast.unparse(event.node.iter)[:120] if isinstance(event.node, ast.For | ast.AsyncFor) else None
        named = sources[0].origin.name if sources and sources[0].origin is not None else ""
        whole = positive_whole(count)
        if whole is not None:
            formula = start_text if (len(lits) > 1 and lits[0].value not in (0, 1)) or stop is not sources[0] else None
            found.append(Candidate(kind, whole, sources, 0.88, level, True, formula, named or ""))
    return found


def _resumable(kind: IterationType, inner: Value) -> list[Candidate]:
    """``range(start, epochs)`` where the start comes from a checkpoint: a job from the start runs them all."""
    if not isinstance(inner, Sym) or inner.path != "range" or len(inner.args) != 2:
        return []
    start, stop = inner.args
    root = named_root(stop, {*EPOCHS, *STEPS})
    if not isinstance(start, Sym) or not isinstance(stop, Lit) or root is None or root.value != stop.value:
        return []
    return _as_candidate(kind, stop, 0.8)


def _innermost(value: Value) -> Value:
    """``tqdm(range(n))``, ``trange(n)``, ``enumerate(range(n))``: the range inside."""
    current = value
    for _ in range(4):
        if not isinstance(current, Sym) or current.path == "range":
            return current
        last = last_name(current.path)
        if last in ("trange",):
            return Sym("range", current.args)
        if last in ("tqdm", "track", "progress_bar", "master_bar", "enumerate", "auto", "logging_tqdm", "progressbar",
            "log_every") and current.args:  # fmt: skip
            current = current.args[0]
        else:
            return current
    return current


def _loop_kind(event: LoopEvent) -> IterationType | None:
    target = event.target.lower()
    if "epoch" in target or target in ("ep", "e", "epo"):
        return IterationType.EPOCHS
    if re.search(r"(^|_)(step|iter|iteration|update|it|itr|i_step|train_step)($|_|s$)", target) or target in (
        "i",
        "_",
        "t",
        "n",
    ):
        iterable = event.iterable
        names = root_names(_innermost(iterable))
        if names & set(EPOCHS):
            return IterationType.EPOCHS
        if names & set(STEPS) or re.search(r"step|iter|update", target):
            return IterationType.STEPS
    return None


_TRAIN_CALL = re.compile(r"train|backward|optimi[sz]|update|fit", re.IGNORECASE)


def _trains(node: ast.AST) -> bool:
    """Whether a loop body calls something that trains."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            function = part.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in ("backward", "step") or _TRAIN_CALL.search(name):
                return True
    return False
