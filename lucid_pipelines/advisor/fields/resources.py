"""GPUs and nodes that a job asks for, and the number of its processes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lucid_pipelines.advisor.evaluator.values import Lit, Map, Obj, Origin, Sym, Value
from lucid_pipelines.advisor.fields.choice import (
    Pick,
    depends_on,
    evidence_of,
    pick_setting,
    positive_whole,
    to_field,
)
from lucid_pipelines.advisor.fields.facts import JobFacts, last_name
from lucid_pipelines.advisor.fields.names import GPU_COUNTS, NODE_COUNTS, WORLD_SIZES
from lucid_pipelines.advisor.fields.settings_table import Trust, normal_name
from lucid_pipelines.advisor.metadata import FieldName, FieldValue, Missing, SourceKind

ALL_VISIBLE = "all visible GPUs: their number is not said"
_COUNT_NAMES = tuple(
    name for name in GPU_COUNTS if name not in ("gpu", "gpu_ids", "gpu_id", "gpu_ranks", "device_ids", "cuda_devices")
)
_LISTS = re.compile(r"(^|[._])(gpu_ranks|gpu_ids|device_ids|devices|gpus|gpu)\.\d+$")
_NAMED_COUNT = re.compile(
    r"(?:^|[_\-./])(?:[avhptl]\d{1,4}0?(?:_?\d+gb?)?[_\-]?x(\d{1,3})|(\d{1,3})x?[_\-]?gpus?)(?=$|[_\-./])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Processes:
    """How many processes train; ``None`` = not known.

    Attributes:
        is_single: the program is one process that uses one device.
        spreads: one process uses several devices.
    """

    world_size: int | None
    is_single: bool
    spreads: bool = False


def read_resources(facts: JobFacts) -> Processes:
    """Fill in GPUs per node, nodes and the total; return the number of processes."""
    nodes = _nodes(facts)
    gpus = _gpus_per_node(facts, nodes)
    facts.put(FieldName.NODES, nodes)
    facts.put(FieldName.GPUS_PER_NODE, gpus)
    total = _total(facts, gpus, nodes)
    if total is not None:
        facts.put(FieldName.GPUS_TOTAL, total)
    return _processes(facts, total)


def _processes(facts: JobFacts, total: FieldValue | Missing | None) -> Processes:
    machine = facts.machine
    count = int(total.value) if isinstance(total, FieldValue) else None
    known = machine.store.get("world_size") if machine is not None else None
    launched = facts.launch is not None and facts.launch.all_visible
    told = isinstance(known, Lit) and known.origin is not None and known.origin.kind.rank > SourceKind.CODE.rank
    if isinstance(known, Lit) and isinstance(known.value, int) and (told or not launched):
        return Processes(known.value, known.value == 1 and count in (0, 1))
    if machine is not None and machine.world.world_size is not None:
        size = machine.world.world_size
        return Processes(size, size == 1 and count in (0, 1))
    if is_jax(facts):
        return Processes(max(count, 1), count <= 1) if count is not None else Processes(None, False)
    launch = facts.launch
    started = launch is not None and (bool(launch.launchers) or launch.all_visible)
    if (
        not started
        and machine is not None
        and "spawned" not in machine.store
        and known is None
        and _starts_alone(facts)
    ):
        spreads = _spreads_out(facts) and count != 1
        return Processes(1, not spreads and count in (0, 1), spreads)
    return Processes(max(count, 1), count <= 1) if count is not None else Processes(None, False)


def _starts_alone(facts: JobFacts) -> bool:
    """Whether nothing in the walked program starts further processes."""
    own = {"Trainer", "LightningCLI"}
    by_framework = any(event.kind in ("lightning_trainer", "lightning_cli") for event in facts.trace.settings)
    ray = "ray" in facts.trace.imports and any(last_name(event.path) in own for event in facts.trace.calls)
    return not by_framework and not ray and _trains_here(facts)


def _total(facts: JobFacts, gpus: FieldValue | Missing, nodes: FieldValue | Missing) -> FieldValue | Missing | None:
    if facts.requested_gpus is not None:
        return to_field(int(str(facts.requested_gpus.value)), [facts.requested_gpus], 0.98)
    if isinstance(gpus, FieldValue) and isinstance(nodes, FieldValue):
        product = int(gpus.value) * int(nodes.value)
        return FieldValue(
            product,
            max(gpus.kind, nodes.kind, key=lambda kind: kind.rank),
            round(min(gpus.confidence_frac, nodes.confidence_frac), 3),
            (*gpus.evidence[:2], *nodes.evidence[:2]),
            "gpus_per_node * nodes",
        )
    launch = facts.launch
    if launch is not None and launch.total is not None and isinstance(launch.total.value, int):
        return to_field(launch.total.value, [launch.total], 0.95)
    declared = _declared_world(facts)
    if declared is not None:
        return to_field(int(str(declared.value)), [declared], 0.9)
    picked = pick_setting(facts.table, WORLD_SIZES, positive_whole, minimum_trust=Trust.LOOSE)
    if isinstance(picked, Pick) and picked.setting is not None and picked.setting.name == "distributed_world_size":
        return to_field(picked.value, [picked.lit], picked.confidence_frac)
    return None


# ---------------------------------------------------------------------- nodes


def _nodes(facts: JobFacts) -> FieldValue | Missing:
    launch = facts.launch
    if facts.requested_nodes is not None:
        return to_field(int(str(facts.requested_nodes.value)), [facts.requested_nodes], 0.98)
    from_code = _nodes_from_world(facts)
    if from_code is not None:
        return from_code
    if launch is not None:
        if launch.nodes is not None and isinstance(launch.nodes.value, int):
            return to_field(launch.nodes.value, [launch.nodes], 0.95)
        if launch.is_elastic:
            return Missing("the launcher takes any number of nodes within a range")
        if launch.hosts_from_file:
            return Missing("hosts come from a file that is not in the snapshot")
        for name in ("NNODES", "NUM_NODES", "N_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "WORLD_NODES"):
            value = launch.env.get(name)
            number = positive_whole(value.value) if value is not None else None
            if value is not None and number is not None:
                return to_field(number, [value], 0.9)
    submitted = _submitit(facts, "nodes", "slurm_nodes")
    if submitted is not None:
        return submitted
    picked = pick_setting(facts.table, NODE_COUNTS, positive_whole, minimum_trust=Trust.LOOSE)
    if isinstance(picked, Pick):
        return to_field(picked.value, [picked.lit], picked.confidence_frac)
    for setting in facts.table.named("hostfile", "hosts_file", "machinefile"):
        if isinstance(setting.initial.value, str) and setting.initial.value.strip() not in ("", "None"):
            return Missing("hosts come from a file that is not in the snapshot", (evidence_of(setting.initial),))
    if _uses_accelerator_pods(facts):
        return Missing("JAX program: as many hosts as it is started on")
    if any(setting.name == "distributed_world_size" and positive_whole(setting.initial.value) not in (None, 1)
        for setting in facts.table.settings):  # fmt: skip
        return Missing("only the number of all processes is said")
    if launch is None:
        return Missing("no launch line")
    if launch.unread:
        return Missing("the launcher has options in a variable whose value is not known")
    if _is_unknown_program(facts):
        return Missing("the program is not in the code: what it starts is not known")
    if _declared_world(facts) is not None:
        return Missing(ONE_RANK)
    word = launch.target_word or Lit(launch.target, Origin(SourceKind.LAUNCHER, "<command>", 1))
    one = Lit(1, Origin(SourceKind.LAUNCHER, word.origin.file if word.origin else "<command>", word.origin.line
        if word.origin else None, launch.target[:60]))  # fmt: skip
    return to_field(1, [one], 0.85, "one command on one machine", SourceKind.LAUNCHER)


def _is_unknown_program(facts: JobFacts) -> bool:
    """A command whose program is not in the snapshot and of which no setting is known."""
    launch = facts.launch
    if launch is None or facts.entry is not None or facts.machine is not None or launch.launchers:
        return False
    return launch.kind in ("binary", "console", "file", "module") and not facts.table.under("usage")


ONE_RANK = "WORLD_SIZE is set by hand: this is one of several processes; where the others run is not said"


def _declared_world(facts: JobFacts) -> Lit | None:
    """``WORLD_SIZE=4 python train.py``: the number of processes, without a launcher that starts them."""
    launch = facts.launch
    value = launch.env.get("WORLD_SIZE") if launch is not None and not launch.launchers else None
    number = positive_whole(value.value) if value is not None else None
    return value if number is not None and number > 1 else None


def _nodes_from_world(facts: JobFacts) -> FieldValue | None:
    """``world_size = gpus_per_node * args.world_size``: the option counts nodes."""
    known = facts.machine.store.get("world_size") if facts.machine is not None else None
    if not isinstance(known, Sym) or "gpu_count" not in known.tags:
        return None
    for factor in _factors(known):
        if isinstance(factor, Lit) and isinstance(factor.value, int) and factor.value >= 1:
            return to_field(factor.value, [factor], 0.85, "world size / GPUs per node")
    return None


def _factors(value: Value) -> list[Value]:
    if isinstance(value, Sym) and value.path == "*":
        return [factor for part in value.args for factor in _factors(part)]
    if isinstance(value, Sym) and value.path == "either":
        return [
            factor
            for part in value.args
            if isinstance(part, Sym) and "gpu_count" in part.tags
            for factor in _factors(part)
        ]
    return [value]


def _submitit(facts: JobFacts, *names: str) -> FieldValue | None:
    for event in facts.trace.calls:
        if event.path == "submitit.update_parameters":
            for name in names:
                value = event.kwargs.get(name)
                number = positive_whole(value.value) if isinstance(value, Lit) else None
                if number is not None and isinstance(value, Lit):
                    return to_field(number, [value], 0.95)
    return None


def is_jax(facts: JobFacts) -> bool:
    """Whether the program trains with JAX, also when it imports other frameworks for their data."""
    imports = facts.trace.imports
    own = {"flax", "optax", "haliax", "equinox", "haiku", "levanter"} & set(imports)
    return "jax" in imports and ("torch" not in imports or bool(own))


def _uses_accelerator_pods(facts: JobFacts) -> bool:
    """JAX programs that ask how many hosts there are."""
    if not is_jax(facts) and "t5x" not in facts.trace.imports:
        return False
    return _count_in_names(facts) is None


# ---------------------------------------------------------------------- GPUs


def _gpus_per_node(facts: JobFacts, nodes: FieldValue | Missing) -> FieldValue | Missing:
    node_count = int(nodes.value) if isinstance(nodes, FieldValue) else None
    if facts.requested_gpus is not None and node_count:
        total = int(str(facts.requested_gpus.value))
        if total % node_count == 0:
            return to_field(
                total // node_count, [facts.requested_gpus], 0.98, "requested GPUs / nodes" if node_count > 1 else None
            )
    launch = facts.launch
    if launch is not None:
        told = launch.per_node or launch.gpus_per_node
        if told is not None and isinstance(told.value, int) and not _is_library(told):
            return to_field(told.value, [told], 0.97)
        if (
            launch.total is not None
            and isinstance(launch.total.value, int)
            and node_count
            and launch.total.value % node_count == 0
        ):
            return to_field(
                launch.total.value // node_count, [launch.total], 0.95, "processes / nodes" if node_count > 1 else None
            )
    from_file = _accelerate_config(facts, node_count)
    if from_file is not None:
        return from_file
    for reader in (_from_spawn, _from_submitit, _from_lists, _from_settings):
        found = reader(facts)
        if found is not None:
            return found
    if launch is not None and launch.visible is not None and isinstance(launch.visible.value, int):
        return to_field(launch.visible.value, [launch.visible], 0.9)
    named = _count_in_names(facts)
    if named is not None:
        return named
    return _single_process(facts)


def _is_library(lit: Lit) -> bool:
    return lit.origin is not None and lit.origin.file == "<library>" and lit.value == 1


def _accelerate_config(facts: JobFacts, node_count: int | None) -> FieldValue | None:
    launch = facts.launch
    if launch is None or "accelerate" not in launch.launchers:
        return None
    for setting in facts.table.named("num_processes"):
        count = positive_whole(setting.initial.value)
        if count is not None and node_count and count % node_count == 0:
            return to_field(count // node_count, [setting.initial], 0.95)
    return None


def _from_spawn(facts: JobFacts) -> FieldValue | Missing | None:
    spawned = facts.machine.store.get("spawned") if facts.machine is not None else None
    if isinstance(spawned, Lit) and isinstance(spawned.value, int) and spawned.value > 0:
        return to_field(spawned.value, [spawned], 0.9)
    if isinstance(spawned, Sym):
        return Missing(ALL_VISIBLE)
    return None


def _from_submitit(facts: JobFacts) -> FieldValue | None:
    return _submitit(facts, "gpus_per_node", "slurm_gpus_per_node", "tasks_per_node", "slurm_ntasks_per_node")


_INDEXES = ("device", "gpu_id", "gpu_ids", "device_ids", "cuda_devices", "cuda_visible_devices")
"""Settings whose single number names a device; under others it may count them."""


def _from_lists(facts: JobFacts) -> FieldValue | None:
    """``gpu_ranks: [0, 1, 2, 3]``, ``--gpus 0,1``, ``--gpus 0,``: a list of devices."""
    groups: dict[tuple[str, str], list[Lit]] = {}
    for setting in facts.table.settings:
        match = _LISTS.search(normal_name(setting.path))
        if match is not None and setting.level >= 2 and isinstance(setting.initial.value, int):
            groups.setdefault((setting.container, setting.path.rpartition(".")[0]), []).append(setting.initial)
    for items in groups.values():
        return to_field(len(items), items[:2], 0.9, "length of the list of devices")
    for setting in facts.table.named(
        "gpus", "gpu_ids", "gpu", "devices", "device_ids", "gpu_id", "cuda_devices", "cuda_visible_devices", "device"
    ):
        text = str(setting.initial.value).strip()
        if setting.level >= 2 and re.fullmatch(r"(\d+\s*,\s*)+\d*", text):
            count = len([part for part in text.split(",") if part.strip()])
            return to_field(count, [setting.initial], 0.9, "length of the list of devices")
        if setting.level >= 2 and setting.name in _INDEXES and re.fullmatch(r"\d{1,2}", text):
            return to_field(1, [setting.initial], 0.85, "one device, by its index")
    return None


def _from_settings(facts: JobFacts) -> FieldValue | Missing | None:
    picked = pick_setting(facts.table, _COUNT_NAMES, _device_count, minimum_trust=Trust.LOOSE)
    if isinstance(picked, Missing):
        return picked
    if isinstance(picked, Pick):
        if picked.value == 0 and picked.setting is not None and picked.setting.level < 2:
            return None
        if int(picked.value) < 0:
            return Missing(ALL_VISIBLE, (evidence_of(picked.lit),))
        is_default = picked.setting is not None and picked.setting.level <= 1
        launched = facts.launch is not None and (facts.launch.all_visible or bool(facts.launch.launchers))
        if is_default and (launched or (int(picked.value) == 1 and _spreads_out(facts))):
            return Missing(ALL_VISIBLE)
        return to_field(picked.value, [picked.lit], picked.confidence_frac)
    return None


def _device_count(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    if text in ("-1", "auto", "all"):
        return -1
    return int(text) if re.fullmatch(r"\d{1,4}", text) and int(text) <= 1024 else None


def _count_in_names(facts: JobFacts) -> FieldValue | None:
    """``v100_x8`` or ``4GPU`` in the name of a configuration file of the launch line."""
    if facts.launch is None:
        return None
    for word in [*facts.launch.args, *([facts.launch.target_word] if facts.launch.target_word else [])]:
        text = str(word.value)
        if "/" not in text and "." not in text and "_" not in text:
            continue
        match = _NAMED_COUNT.search(re.sub(r"\.(ya?ml|py|json|sh|toml|gin)$", "", text))
        if match is not None:
            count = int(match.group(1) or match.group(2))
            if 1 <= count <= 64:
                return to_field(count, [word], 0.7, "the count in the name")
    return None


def _spreads_out(facts: JobFacts) -> bool:
    """Whether one process would use every device that it sees."""
    for event in facts.trace.calls:
        last = last_name(event.path)
        if last in ("DataParallel", "MirroredStrategy", "MultiWorkerMirroredStrategy", "pmap", "TPUStrategy"):
            return True
        if last == "from_pretrained" and "max_memory" in event.kwargs and "device_map" in event.kwargs:
            # The model is laid out over the devices whose memory is listed.
            return True
    return False


def _sized_by_devices(facts: JobFacts) -> bool:
    """Whether a setting for the number of processes defaults to the number of visible devices."""
    names = {*WORLD_SIZES, *_COUNT_NAMES}
    for event in facts.trace.settings:
        todo: list[Value] = [event.container]
        for _ in range(400):
            if not todo:
                break
            value = todo.pop()
            inside = value.items if isinstance(value, Map) else value.attrs if isinstance(value, Obj) else {}
            for key, child in list(inside.items())[:400]:
                if isinstance(child, Sym) and "gpu_count" in child.tags and normal_name(str(key)) in names:
                    return True
                if isinstance(child, Map | Obj):
                    todo.append(child)
    return False


def _single_process(facts: JobFacts) -> FieldValue | Missing:
    """One process without a launcher uses one device, unless the program spreads over all it sees."""
    launch = facts.launch
    if launch is None:
        return Missing("no launch line")
    if launch.all_visible:
        return Missing(ALL_VISIBLE)
    if _declared_world(facts) is not None:
        return Missing(ONE_RANK)
    is_alone = launch.per_node is None or launch.per_node.value == 1
    if launch.launchers and not (is_alone and launch.per_node is not None):
        return Missing("the launcher does not say how many processes it starts")
    if launch.per_node is not None and launch.per_node.value == 1:
        return to_field(1, [launch.per_node], 0.9)
    if not _trains_here(facts):
        return Missing("the program could not be followed to its training")
    device = _single_device(facts)
    processes = pick_setting(facts.table, WORLD_SIZES, positive_whole, minimum_trust=Trust.LOOSE)
    if isinstance(processes, Pick) and int(processes.value) > 1:
        return Missing("only the number of all processes is said", (evidence_of(processes.lit),))
    if _spreads_out(facts) or _sized_by_devices(facts):
        return Missing(ALL_VISIBLE)
    if any(_STARTERS.search(str(word.value)) for words, _ in facts.trace.launches for word in words[:6]):
        return Missing("the program starts processes of its own")
    if is_jax(facts):
        return Missing("JAX uses every device that it sees")
    if depends_on_world(facts):
        return Missing(ALL_VISIBLE)
    for event in facts.trace.settings:
        if event.kind == "lightning_trainer" and "lightning" in facts.trace.imports:
            return Missing(ALL_VISIBLE)
    if device is not None:
        return device
    word = launch.target_word or Lit(launch.target, None)
    origin = word.origin
    one = Lit(1, Origin(SourceKind.LAUNCHER, origin.file if origin else "<command>", origin.line if origin else None,
        launch.target[:60]))  # fmt: skip
    return to_field(1, [one], 0.75, "one process, one device", SourceKind.LAUNCHER)


_STARTERS = re.compile(r"torchrun|torch\.distributed|accelerate|deepspeed|mpirun|srun|horovodrun|\.py$")


def depends_on_world(facts: JobFacts) -> bool:
    """Whether the program sizes its process group by the devices that it sees."""
    known = facts.machine.store.get("world_size") if facts.machine is not None else None
    return known is not None and depends_on(known if isinstance(known, Sym) else None, "gpu_count")


def _single_device(facts: JobFacts) -> FieldValue | None:
    """``use_gpu=False`` means none; ``gpu_id=0`` one."""
    for setting in facts.table.named("use_gpu", "use_cuda", "cuda", "with_gpu", "enable_gpu"):
        final = setting.final or setting.initial
        if setting.trust >= Trust.INSTANCE and final.value is False and not is_inverted(setting.path):
            return to_field(0, [final], 0.8, "no device is used")
    for setting in facts.table.named("gpu_id", "gpu", "device_id", "cuda_device", "device"):
        text = str(setting.initial.value)
        if setting.level >= 2 and re.fullmatch(r"\d|cuda:\d", text):
            return to_field(1, [setting.initial], 0.85, "one device is named")
    return None


def is_inverted(path: str) -> bool:
    """``no_cuda`` and its kin."""
    return normal_name(path.rpartition(".")[2]).startswith(("no_", "disable"))


def _trains_here(facts: JobFacts) -> bool:
    """Whether the walk came to something that trains."""
    for event in facts.trace.calls:
        last = last_name(event.path)
        if last in ("fit", "DataLoader", "backward", "Trainer", "train", "learn", "minimize", "step",
            "Seq2SeqTrainer", "train_on_batch", "apply_gradients", "compile"):  # fmt: skip
            return True
    return False
