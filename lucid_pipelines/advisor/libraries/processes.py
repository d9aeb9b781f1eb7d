"""Processes and devices: what the launcher decides, and programs that start their own workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.expressions import shown_text
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.machine import World
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    TRUE,
    Func,
    Lit,
    Map,
    Model,
    Native,
    Obj,
    Seq,
    Site,
    Sym,
    Value,
    text_of,
    unknown,
    whole_of,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


def world_size(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``get_world_size()``."""
    known = machine.store.get("world_size")
    if isinstance(known, Lit):
        return known
    world = machine.world
    if world.world_size is not None:
        return Lit(world.world_size, world.origin)
    if not world.distributed and "process_group" not in machine.store:
        return Lit(1, world.origin) if world.gpus == 1 else _symbol("world_size")
    return _symbol("world_size")


def device_count(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``torch.cuda.device_count()``: what one process can see."""
    machine.store["asks_device_count"] = site
    if machine.world.gpus is not None:
        return Lit(machine.world.gpus, machine.world.origin)
    return _symbol("gpu_count")


def _symbol(tag: str) -> Sym:
    return Sym(tag, tags=frozenset({tag}))


def init_process_group(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``init_process_group(world_size=…)``: from here on the world's size is known."""
    machine.store["process_group"] = site
    size = kwargs.get("world_size")
    if (size is not None and whole_of(size) is not None and (whole_of(size) or 0) > 0) or isinstance(size, Sym):
        machine.store["world_size"] = size
    return NONE


def is_initialised(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if machine.world.distributed or "process_group" in machine.store:
        return TRUE
    return FALSE


def spawn(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``mp.spawn(fn, nprocs=n, args=(…))``: the first worker is walked through."""
    target = args[0] if args else kwargs.get("fn", NONE)
    given = kwargs.get("args", args[1] if len(args) > 1 else Seq([]))
    count = kwargs.get("nprocs", args[2] if len(args) > 2 else Lit(1))
    machine.store["spawned"] = count
    if whole_of(count) is not None and "world_size" not in machine.store:
        machine.store["local_world_size"] = count
    words = items_of(machine, given)
    if isinstance(target, Func | Native | Obj):
        return machine.call(target, [Lit(0), *(words or [Sym("*")])], {}, site)
    return NONE


def notebook_launcher(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``accelerate.notebook_launcher(fn, args, num_processes=…)``."""
    count = kwargs.get("num_processes", args[2] if len(args) > 2 else NONE)
    machine.store["spawned"] = count
    target = args[0] if args else NONE
    words = items_of(machine, args[1] if len(args) > 1 else kwargs.get("args", Seq([])))
    return machine.call(target, words or [], {}, site)


class Process(Model):
    """``multiprocessing.Process(target=f, args=(…))``: starting it is calling the target."""

    __slots__ = ("args", "kwargs", "target")

    def __init__(self, target: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.target = target
        self.args = args
        self.kwargs = kwargs

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name in ("start", "run"):
            return Native(name, lambda m, args, kwargs, at: m.call(self.target, self.args, self.kwargs, at))
        return Native(name, lambda m, args, kwargs, at: NONE)


def make_process(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    target = kwargs.get("target", NONE)
    words = items_of(machine, kwargs.get("args", Seq([]))) or []
    named = kwargs.get("kwargs")
    return Process(
        target, words, {str(key): value for key, value in named.items.items()} if isinstance(named, Map) else {}
    )


class Executor(Model):
    """``submitit.AutoExecutor``: its parameters ask for nodes and GPUs, ``submit`` runs the job."""

    __slots__ = ()

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name == "update_parameters":
            return Native(name, self._parameters)
        if name in ("submit", "map_array"):
            return Native(name, lambda m, args, kwargs, at: m.call(args[0], args[1:], kwargs, at) if args else NONE)
        return Native(name, lambda m, args, kwargs, at: NONE)

    def _parameters(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        machine.note_call("submitit.update_parameters", args, kwargs, site)
        nodes = kwargs.get("nodes") or kwargs.get("slurm_nodes") or Lit(1)
        tasks = kwargs.get("tasks_per_node") or kwargs.get("slurm_ntasks_per_node") or kwargs.get("gpus_per_node")
        per_node, node_count = whole_of(tasks), whole_of(nodes)
        if per_node is not None and node_count is not None:
            origin = tasks.origin if isinstance(tasks, Lit) else None
            machine.store["world_size"] = Lit(per_node * node_count, origin)
            # The batch system will set these for every task.
            machine.world = World(per_node * node_count, per_node, machine.world.gpus, True, origin)
            for name, value in (("WORLD_SIZE", per_node * node_count), ("RANK", 0), ("LOCAL_RANK", 0),
                ("SLURM_PROCID", 0), ("SLURM_NTASKS", per_node * node_count)):  # fmt: skip
                machine.env.items.setdefault(name, Lit(str(value), origin))
        return NONE


def job_environment(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``submitit.JobEnvironment()``: the first task."""
    size = machine.store.get("world_size")
    return Map(
        {
            "num_tasks": size if isinstance(size, Lit) else _symbol("world_size"),
            "global_rank": Lit(0),
            "local_rank": Lit(0),
            "job_id": Lit("0"),
            "hostname": Lit("host"),
        },
        attributes=True,
        open=True,
    )


def run_command(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``subprocess.run([...])`` and ``os.system("…")``: kept, since it may be the real launch."""
    given = args[0] if args else kwargs.get("args") or kwargs.get("cmd")
    words: list[Lit] = []
    text = text_of(given)
    if text is not None and isinstance(given, Lit):
        words = [Lit(text, given.origin)]
    elif given is not None:
        for item in items_of(machine, given) or []:
            shown = shown_text(item)
            words.append(
                Lit(shown if shown is not None else "<unknown>", item.origin if isinstance(item, Lit) else None)
            )
    if not words and given is not None:
        words = _literal_parts(given)
    if words and len(machine.trace.launches) < 20:
        machine.trace.launches.append((words, site))
    return unknown("subprocess")


def _literal_parts(value: Value) -> list[Lit]:
    """Words that are written inside a command whose other parts are unknown."""
    found: list[Lit] = []
    todo = [value]
    for _ in range(60):
        if not todo:
            break
        current = todo.pop(0)
        if isinstance(current, Lit) and isinstance(current.value, str):
            found.extend(Lit(word, current.origin) for word in current.value.split()[:12])
        elif isinstance(current, Sym):
            todo.extend(current.args)
        elif isinstance(current, Seq):
            todo.extend(current.items[:20])
    return found[:12]


def true(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return TRUE


def cuda_available(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """A job that asks for no GPU has none; otherwise the cluster's nodes have some."""
    return FALSE if machine.world.gpus == 0 else TRUE


def rank(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """The walk follows the first process."""
    return Lit(0)


def register(library: Library) -> None:
    """Add these models to a library."""
    calls, endings = library.calls, library.endings
    for prefix in (
        "torch.distributed",
        "torch.distributed.distributed_c10d",
        "deepspeed.comm",
        "horovod.torch",
        "composer.utils.dist",
    ):
        calls[f"{prefix}.get_world_size"] = world_size
        calls[f"{prefix}.get_rank"] = rank
        calls[f"{prefix}.init_process_group"] = init_process_group
        calls[f"{prefix}.is_initialized"] = is_initialised
        calls[f"{prefix}.is_available"] = true
        calls[f"{prefix}.size"] = world_size
        calls[f"{prefix}.rank"] = rank
        calls[f"{prefix}.local_rank"] = rank
    calls["deepspeed.init_distributed"] = init_process_group
    calls["composer.utils.get_global_rank"] = calls["composer.utils.dist.get_global_rank"] = rank
    for name in ("torch.cuda.device_count", "jax.device_count", "jax.local_device_count", "torch.xpu.device_count",
        "torch.accelerator.device_count"):  # fmt: skip
        calls[name] = device_count
    for name in ("torch.cuda.is_available", "torch.cuda.is_bf16_supported", "torch.backends.cudnn.is_available"):
        calls[name] = cuda_available
    for name in ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes",
        "torch.multiprocessing.spawn.spawn", "torch_xla.distributed.xla_multiprocessing.spawn"):  # fmt: skip
        calls[name] = spawn
    calls["accelerate.notebook_launcher"] = notebook_launcher
    for name in ("multiprocessing.Process", "torch.multiprocessing.Process", "threading.Thread",
        "multiprocessing.context.Process"):  # fmt: skip
        calls[name] = make_process
    endings["Process"] = make_process
    for name in ("submitit.AutoExecutor", "submitit.SlurmExecutor", "submitit.LocalExecutor"):
        calls[name] = lambda machine, args, kwargs, site: Executor()
    calls["submitit.JobEnvironment"] = job_environment
    for name in ("subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call",
        "subprocess.check_output", "os.system", "os.execvp", "os.popen"):  # fmt: skip
        calls[name] = run_command
