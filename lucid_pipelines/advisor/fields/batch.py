"""Batch sizes: of one device, of the whole job, and the steps that are accumulated between."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lucid_pipelines.advisor.evaluator.trace import CallEvent
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Sym, Value
from lucid_pipelines.advisor.fields.choice import (
    Pick,
    as_number,
    depends_on,
    evidence_of,
    formula_of,
    named_root,
    pick_setting,
    pick_to_field,
    positive_whole,
    refused_value,
    root_names,
    to_field,
)
from lucid_pipelines.advisor.fields.facts import JobFacts
from lucid_pipelines.advisor.fields.names import ACCUMULATION, DEVICE_BATCH, GLOBAL_BATCH, PLAIN_BATCH
from lucid_pipelines.advisor.fields.operations import combined_with_world, is_world, operations
from lucid_pipelines.advisor.fields.resources import Processes, is_jax
from lucid_pipelines.advisor.fields.settings_table import Trust, is_other_phase
from lucid_pipelines.advisor.metadata import FieldName, Missing, SourceKind

_AVOID = re.compile(
    r"(eval|val_|_val|valid|test|infer|predict|dev_|sample_batch|gen_batch|buffer|embedding_batch|prefetch|schedule|replay)"
)
_ALL_NAMES = (*GLOBAL_BATCH, *DEVICE_BATCH, *PLAIN_BATCH)
_LOADERS = ("DataLoader", "StatefulDataLoader", "MultiEpochsDataLoader", "FastDataLoader", "DataLoaderX", "WebLoader")


@dataclass(slots=True)
class Batches:
    """What the readers of this field found before anything is concluded."""

    accumulation: Pick | Missing | None
    loaded: Value | None
    total: Pick | None
    device: Pick | None
    plain: Pick | Missing | None

    @property
    def steps(self) -> int | None:
        """Accumulated steps; 1 when nothing accumulates, ``None`` when that is not known."""
        if isinstance(self.accumulation, Pick):
            return int(self.accumulation.value)
        return 1 if self.accumulation is None else None


def read_batch(facts: JobFacts, processes: Processes) -> None:
    """Fill in batch sizes and accumulation."""
    batches = _collect(facts)
    counted = _counted_in_other_units(facts)
    if counted is not None:
        facts.put(FieldName.BATCH_SIZE, counted)
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, counted)
    else:
        _conclude(facts, batches, processes)
    _put_accumulation(facts, batches)


def _collect(facts: JobFacts) -> Batches:
    total = pick_setting(facts.table, GLOBAL_BATCH, positive_whole, avoid=_AVOID)
    device = pick_setting(facts.table, DEVICE_BATCH, positive_whole, avoid=_AVOID, use_final=True)
    plain = pick_setting(facts.table, PLAIN_BATCH, positive_whole, avoid=_AVOID)
    deepspeed = _deepspeed(facts)
    if deepspeed is not None:
        total, device = deepspeed
    return Batches(
        _accumulation(facts),
        _training_load(facts),
        total if isinstance(total, Pick) and _counts_samples(total) else None,
        device if isinstance(device, Pick) else None,
        plain,
    )


def _conclude(facts: JobFacts, batches: Batches, processes: Processes) -> None:
    if batches.total is not None:
        _from_global(facts, batches, batches.total, processes)
    elif batches.device is not None:
        _from_device(facts, batches, batches.device, processes)
        _from_tokens(facts)
    elif batches.loaded is not None and _from_load(facts, batches, batches.loaded, processes):
        return
    elif (fitted := _fitted(facts)) is not None:
        field = to_field(int(str(fitted.value)), [named_root(fitted, _ALL_NAMES) or fitted], 0.88)
        facts.put(FieldName.BATCH_SIZE, field)
        if processes.is_single:
            facts.put(FieldName.BATCH_SIZE_PER_DEVICE, field)
    elif isinstance(batches.plain, Pick):
        _from_plain(facts, batches, batches.plain, processes)
    else:
        missing = batches.plain or refused_value(facts.table, _ALL_NAMES) or Missing("no batch size was found")
        facts.put(FieldName.BATCH_SIZE, missing)
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, missing)


# ---------------------------------------------------------------------- accumulation


def _accumulation(facts: JobFacts) -> Pick | Missing | None:
    launch = facts.launch
    if launch is not None and launch.accumulation is not None:
        return Pick(int(str(launch.accumulation.value)), launch.accumulation, 0.95)
    for event in facts.calls("Accelerator"):
        value = event.kwargs.get("gradient_accumulation_steps")
        number = positive_whole(value.value) if isinstance(value, Lit) else None
        if number is not None and isinstance(value, Lit):
            return Pick(number, value, 0.95)
    # Programs divide the setting by the number of processes: the last value is the one that is used.
    return pick_setting(facts.table, ACCUMULATION, _count, use_final=True)


_ACCUMULATES = re.compile(r"gradient_accumul|grad_accum|accumulate_(every|grad)|accum(ulation)?_(steps|iter)")
"""A program that speaks of accumulation, but of which no setting was read."""


def _count(value: object) -> int | None:
    number = positive_whole(value)
    return number if number is not None and number <= 100_000 else None


def _put_accumulation(facts: JobFacts, batches: Batches) -> None:
    if FieldName.GRAD_ACCUMULATION in facts.found or FieldName.GRAD_ACCUMULATION in facts.missing:
        return
    accumulation = batches.accumulation
    if isinstance(accumulation, Pick):
        facts.put(FieldName.GRAD_ACCUMULATION, pick_to_field(accumulation))
    elif isinstance(accumulation, Missing):
        facts.put(FieldName.GRAD_ACCUMULATION, accumulation)
    elif facts.complete and (
        batches.loaded is not None
        or (facts.calls("fit", "backward", "step", "minimize") and not facts.mentions(_ACCUMULATES))
    ):
        facts.put(FieldName.GRAD_ACCUMULATION, to_field(1, [], 0.75, "no accumulation in the program"))
    else:
        facts.put(
            FieldName.GRAD_ACCUMULATION,
            Missing("no accumulation setting was found, and the training loop was not followed"),
        )


# ---------------------------------------------------------------------- loaders


def _training_load(facts: JobFacts) -> Value | None:
    """The batch size with which one process loads its training data."""
    best: tuple[int, int, Value] | None = None
    for number, event in enumerate(facts.calls(*_LOADERS)):
        value = event.kwargs.get("batch_size")
        if value is None and len(event.args) > 1:
            value = event.args[1]
        if value is None or (isinstance(value, Lit) and positive_whole(value.value) is None):
            continue
        score = _loader_score(event, value)
        if score > -3 and (best is None or score > best[0]):
            best = (score, -number, value)
    return best[2] if best is not None else None


def _loader_score(event: CallEvent, value: Value) -> int:
    score = 0
    shuffle = event.kwargs.get("shuffle")
    if isinstance(shuffle, Lit):
        score += 3 if shuffle.value else -2
    drop = event.kwargs.get("drop_last")
    if isinstance(drop, Lit):
        score += 2 if drop.value else -1
    sampler = event.kwargs.get("sampler")
    if isinstance(sampler, Sym):
        if re.search(r"random|distributed|RASampler", sampler.path, re.IGNORECASE):
            score += 2
        if re.search(r"sequential", sampler.path, re.IGNORECASE):
            score -= 3
    names = root_names(value) | root_names(event.args[0] if event.args else event.kwargs.get("dataset"))
    if any("train" in name for name in names):
        score += 3
    if any(re.search(r"val|test|eval", name) for name in names):
        score -= 5
    # A number on the spot may be that of a check before training; a setting is what the job is started with.
    return score + (1 if isinstance(value, Lit) else 0) + (2 if _is_setting(event, value) else 0)


_CALL_LINES = 12


def _is_setting(event: CallEvent, value: Value) -> bool:
    """Whether a batch size has a name of its own, away from the call that takes it."""
    root = named_root(value, _ALL_NAMES)
    if root is None or root.origin is None:
        return False
    line, site = root.origin.line, event.site
    is_here = root.origin.file == site.file and line is not None and 0 <= line - site.line <= _CALL_LINES
    return not (is_here and root.origin.kind is SourceKind.CODE)


def _from_load(facts: JobFacts, batches: Batches, value: Value, processes: Processes) -> bool:
    """What one process loads is the batch of its device, or of all devices when there is one process."""
    if isinstance(value, Sym):
        return _from_divided(facts, value)
    assert isinstance(value, Lit)
    number = positive_whole(value.value)
    plain = batches.plain
    if number is None:
        return False
    setting = named_root(value, _ALL_NAMES)
    told = isinstance(plain, Pick) and plain.setting is not None and plain.setting.level >= 2
    if told and setting is None and isinstance(plain, Pick) and plain.value != number:
        return False
    source = [setting or value]
    formula = formula_of(value)
    if _one_for_all(facts, processes):
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, Missing(_SPREAD))
    else:
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, to_field(number, source, 0.9, formula))
    world, steps = processes.world_size, batches.steps
    if world is None or steps is None:
        missing = "the number of processes or of accumulated steps is not known"
        facts.put(FieldName.BATCH_SIZE, Missing(missing, (evidence_of(source[0]),)))
        return True
    total = number * world * steps
    text = "per process * processes" + (" * accumulation" if steps > 1 else "") if total != number else formula
    facts.put(FieldName.BATCH_SIZE, to_field(total, source, 0.9, text))
    return True


_SPREAD = "one process spreads its batch over the devices that it sees"


def _one_for_all(facts: JobFacts, processes: Processes) -> bool:
    """Whether one process loads for several devices: how it divides the batch among them was not seen."""
    total = facts.found.get(FieldName.GPUS_TOTAL)
    return processes.spreads or (processes.world_size == 1 and total is not None and int(total.value) > 1)


def _from_divided(facts: JobFacts, value: Sym) -> bool:
    """``batch_size // world_size`` with an unknown world: the setting is the batch of the whole job."""
    if not any(symbol in ("/", "//") and is_world(right) for symbol, _, right in operations(value)):
        return False
    setting = named_root(value, _ALL_NAMES)
    number = positive_whole(setting.value) if setting is not None else None
    if setting is None or number is None:
        return False
    if depends_on(value, "gpu_count") and not depends_on(value, "world_size") and not _counts_nodes(value):
        nodes = facts.found.get(FieldName.NODES)
        if nodes is None:
            return False
        count = int(nodes.value)
        facts.put(
            FieldName.BATCH_SIZE,
            to_field(number * count, [setting], 0.8, "batch of a node * nodes" if count > 1 else None),
        )
    else:
        facts.put(FieldName.BATCH_SIZE, to_field(number, [setting], 0.88))
    reason = "it is the batch divided by the number of devices, which is not known"
    facts.put(FieldName.BATCH_SIZE_PER_DEVICE, Missing(reason))
    return True


def _counts_nodes(value: Sym) -> bool:
    """Whether the divisor is the GPUs of a node times a number: the number is that of the nodes."""
    for symbol, _, right in operations(value):
        if symbol in ("/", "//") and is_world(right) and isinstance(right, Sym):
            for inner, one, other in operations(right):
                if inner == "*" and any(
                    isinstance(part, Lit) and isinstance(part.value, int) and part.value > 1 for part in (one, other)
                ):
                    return True
    return False


# ---------------------------------------------------------------------- settings


def _from_global(facts: JobFacts, batches: Batches, total: Pick, processes: Processes) -> None:
    facts.put(FieldName.BATCH_SIZE, pick_to_field(total))
    number, device, world = int(total.value), batches.device, processes.world_size
    plain, steps = batches.plain, batches.accumulation
    if device is None and isinstance(plain, Pick) and isinstance(steps, Pick) and _quotient_of(steps, plain, total):
        # accumulation = total_batch_size // (batch_size * world): the plain name is the batch of a device.
        device = plain
    parallel = _model_parallel(facts)
    scaled = any(symbol == "*" and (is_world(left) or is_world(right)) for symbol, left, right in operations(total.lit))
    named = plain.setting.name if isinstance(plain, Pick) and plain.setting is not None else ""
    if device is None and isinstance(plain, Pick) and scaled and named in root_names(total.lit):
        # global_batch_size = batch_size * world_size
        device = plain
    if device is not None:
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, pick_to_field(device))
        per_round = int(device.value) * world if world is not None else 0
        if batches.accumulation is None and per_round and parallel == 1 and number % per_round == 0:
            field = to_field(
                number // per_round, [total.lit, device.lit], 0.85, "global batch / (device batch * processes)"
            )
            facts.put(FieldName.GRAD_ACCUMULATION, field)
        elif batches.accumulation is None:
            facts.put(FieldName.GRAD_ACCUMULATION, Missing("it follows from the number of data-parallel processes"))
        return
    loaded = batches.loaded
    if world is not None and number % world == 0 and batches.accumulation is None and parallel == 1:
        field = to_field(number // world, [total.lit], 0.75, "global batch / processes")
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, field)
    elif isinstance(loaded, Lit) and positive_whole(loaded.value) is not None and world is not None:
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, to_field(int(str(loaded.value)), [loaded], 0.85, formula_of(loaded)))
    elif batches.accumulation is None and not processes.is_single:
        facts.put(FieldName.GRAD_ACCUMULATION, Missing("it follows from the batch of a device, which is not said"))


def _from_tokens(facts: JobFacts) -> None:
    """``total_batch_size = 524288`` in tokens: with the sequence length it is a number of sequences."""
    length = facts.found.get(FieldName.SEQ_LEN)
    tokens = pick_setting(
        facts.table, ("total_batch_size", "global_batch_size_tokens", "tokens_per_batch"), positive_whole
    )
    if length is None or not isinstance(tokens, Pick) or _counts_samples(tokens):
        return
    if int(tokens.value) % int(length.value) == 0:
        field = to_field(
            int(tokens.value) // int(length.value), [tokens.lit], 0.8, "tokens of a step / sequence length"
        )
        facts.put(FieldName.BATCH_SIZE, field)


def _model_parallel(facts: JobFacts) -> int:
    product = 1
    for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "tensor_parallel", "pipeline_parallel",
        "context_parallel_size", "model_parallel_size", "pipe_parallel_size", "tensor_parallel_degree",
        "pipeline_parallel_degree"):  # fmt: skip
        picked = pick_setting(facts.table, (name,), positive_whole)
        if isinstance(picked, Pick):
            product *= int(picked.value)
    for setting in facts.table.named("tp", "pp", "cp", "tp_size", "pp_size"):
        number = positive_whole(setting.initial.value)
        if number is not None and setting.level >= 2 and "parallel" in setting.path.lower().rpartition(".")[0]:
            product *= number
    return product


def _from_device(facts: JobFacts, batches: Batches, device: Pick, processes: Processes) -> None:
    facts.put(FieldName.BATCH_SIZE_PER_DEVICE, pick_to_field(device))
    accumulation, plain = batches.accumulation, batches.plain
    if isinstance(plain, Pick) and isinstance(accumulation, Pick) and _quotient_of(accumulation, device, plain):
        # accumulation = batch_size // micro_batch_size: the plain name is the whole batch.
        facts.put(FieldName.BATCH_SIZE, pick_to_field(plain))
        return
    world, steps = processes.world_size, batches.steps
    if world is None or steps is None:
        reason = "it is the batch of a device times the number of devices, which is not known"
        facts.put(FieldName.BATCH_SIZE, Missing(reason, (evidence_of(device.lit),)))
        return
    parallel = _model_parallel(facts)
    if parallel > 1 and world % parallel:
        facts.put(FieldName.BATCH_SIZE, Missing("it depends on the number of data-parallel replicas"))
        return
    world //= parallel
    total = int(device.value) * steps * world
    lits = [device.lit, *([accumulation.lit] if isinstance(accumulation, Pick) else [])]
    formula = "device batch * accumulation * processes" if total != int(device.value) else None
    if parallel > 1:
        formula = "device batch * accumulation * processes / processes of one replica"
    facts.put(FieldName.BATCH_SIZE, to_field(total, lits, 0.92 if parallel == 1 else 0.8, formula))


def _quotient_of(accumulation: Pick, device: Pick, total: Pick) -> bool:
    names = root_names(accumulation.lit)
    return (
        total.setting is not None
        and device.setting is not None
        and total.setting.name in names
        and device.setting.name in names
    )


def _from_plain(facts: JobFacts, batches: Batches, plain: Pick, processes: Processes) -> None:
    """A setting that is only called ``batch_size``: what the program does with it says what it counts."""
    world, steps = processes.world_size, batches.steps
    name = plain.setting.name if plain.setting is not None else "batch_size"
    smaller = pick_setting(facts.table, ("minibatch_size", "mini_batch_size"), positive_whole, use_final=True)
    if isinstance(smaller, Pick) and name == "batch_size" and plain.lit.origin is not None and plain.lit.origin.inputs:
        # Reinforcement learning: what is collected in a round, and the part that one update sees.
        facts.put(FieldName.BATCH_SIZE, pick_to_field(plain))
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, pick_to_field(smaller))
        return
    multiplied, divided = combined_with_world(facts.trace, (name,))
    if divided and not multiplied:
        facts.put(FieldName.BATCH_SIZE, pick_to_field(plain))
        if world is not None and int(plain.value) % world == 0:
            field = to_field(int(plain.value) // world, [plain.lit], 0.8, "batch / processes")
            facts.put(FieldName.BATCH_SIZE_PER_DEVICE, field)
        return
    whole = _names_whole_batch(facts)
    if not whole and (world == 1 or multiplied):
        _as_device(facts, plain, world, steps, 0.9, processes)
    elif whole:
        field = to_field(plain.value, [plain.lit], plain.confidence_frac * 0.9, formula_of(plain.lit))
        facts.put(FieldName.BATCH_SIZE, field)
        total = facts.found.get(FieldName.GPUS_TOTAL)
        if total is not None and int(total.value) > 0 and int(plain.value) % int(total.value) == 0:
            per_device = to_field(int(plain.value) // int(total.value), [plain.lit], 0.75, "batch / devices")
            facts.put(FieldName.BATCH_SIZE_PER_DEVICE, per_device)
    elif "torch" in facts.trace.imports and facts.complete and _loads_per_process(facts, world):
        # Data-parallel programs of torch load per process unless they divide; no division was seen.
        _as_device(facts, plain, world, steps, 0.75, processes)
    else:
        reason = "whether this is the batch of a device or of the whole job was not seen"
        facts.put(FieldName.BATCH_SIZE, Missing(reason, (evidence_of(plain.lit),)))
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, Missing(reason, (evidence_of(plain.lit),)))


def _loads_per_process(facts: JobFacts, world: int | None) -> bool:
    """Whether the batch may be taken for that of a process.

    A program that starts its processes itself may divide the batch among them: then its loading must have been seen.
    """
    launched = (facts.launch is not None and bool(facts.launch.launchers)) or bool(facts.table.named("nproc_per_node"))
    if facts.calls(*_LOADERS, "backward", "fit") or (launched and world is not None):
        return world is not None or _on_one_node(facts) or not launched
    return world in (None, 1) and _on_one_node(facts)


def _on_one_node(facts: JobFacts) -> bool:
    nodes = facts.found.get(FieldName.NODES)
    return nodes is not None and int(nodes.value) == 1


def _as_device(
    facts: JobFacts, plain: Pick, world: int | None, steps: int | None, confidence: float, processes: Processes
) -> None:
    if _one_for_all(facts, processes):
        facts.put(FieldName.BATCH_SIZE_PER_DEVICE, Missing(_SPREAD))
    else:
        facts.put(
            FieldName.BATCH_SIZE_PER_DEVICE, to_field(plain.value, [plain.lit], confidence, formula_of(plain.lit))
        )
    if world is None or steps is None:
        reason = "it is the batch of a device times the number of devices, which is not known"
        facts.put(FieldName.BATCH_SIZE, Missing(reason, (evidence_of(plain.lit),)))
        return
    total = int(plain.value) * world * steps
    formula = "device batch * accumulation * processes" if total != int(plain.value) else formula_of(plain.lit)
    facts.put(FieldName.BATCH_SIZE, to_field(total, [plain.lit], confidence, formula))


def _names_whole_batch(facts: JobFacts) -> bool:
    """JAX and TensorFlow programs name the batch of the whole job."""
    imports = facts.trace.imports
    if is_jax(facts):
        return True
    return any(name in imports for name in ("tensorflow", "seqio", "keras")) and "torch" not in imports


def _fitted(facts: JobFacts) -> Lit | None:
    """``model.fit(batch_size=…)``."""
    for event in facts.calls("fit"):
        value = event.kwargs.get("batch_size")
        if isinstance(value, Lit) and positive_whole(value.value) is not None:
            return value
    return None


def _deepspeed(facts: JobFacts) -> tuple[Pick | None, Pick | None] | None:
    """A DeepSpeed configuration in code: its own names say what is global."""
    for event in facts.calls("initialize"):
        if "deepspeed" not in event.path:
            continue
        config = event.kwargs.get("config") or event.kwargs.get("config_params")
        if not isinstance(config, Map):
            continue
        picks: list[Pick | None] = []
        for name in ("train_batch_size", "train_micro_batch_size_per_gpu"):
            value = config.items.get(name)
            number = positive_whole(value.value) if isinstance(value, Lit) else None
            picks.append(Pick(number, value, 0.93) if number is not None and isinstance(value, Lit) else None)
        if picks[0] is not None or picks[1] is not None:
            return picks[0], picks[1]
    return None


def _counts_samples(total: Pick) -> bool:
    """``total_batch_size = 524288`` counts tokens, not samples."""
    is_total = total.setting is not None and total.setting.name in (
        "total_batch_size",
        "effective_batch_size",
        "global_batch",
    )
    return not is_total or int(total.value) < 65_536


def _counted_in_other_units(facts: JobFacts) -> Missing | None:
    """Batches that are measured in tokens or seconds have no fixed number of samples."""
    for setting in facts.table.named("batch_type", "batch_mode", "batch_size_unit"):
        if setting.level >= 2 and str(setting.initial.value).lower() in ("tokens", "token", "frames", "numel"):
            return Missing("batches are counted in tokens", (evidence_of(setting.initial),))
    for setting in facts.table.named("max_duration", "max_tokens", "batch_bins", "batch_frames"):
        number = as_number(setting.initial.value)
        if number is None or is_other_phase(setting.path) or number >= 1e8 or setting.trust <= Trust.ASSIGNMENT:
            continue
        if setting.name == "max_duration" and setting.level < 1:
            continue
        if (setting.level >= 2 or setting.trust is Trust.PARSED) and not _names_batch(facts):
            reason = f"batches are limited by {setting.name}, not by a number of samples"
            return Missing(reason, (evidence_of(setting.initial),))
    return None


def _names_batch(facts: JobFacts) -> bool:
    names = (*GLOBAL_BATCH, *DEVICE_BATCH, *PLAIN_BATCH)
    picked = pick_setting(facts.table, names, positive_whole, avoid=_AVOID, minimum_trust=Trust.LOOSE)
    return isinstance(picked, Pick)
