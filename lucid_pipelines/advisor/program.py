"""Walking through the program that a launch starts."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass

from lucid_pipelines.advisor.configs.notebook import notebook_source
from lucid_pipelines.advisor.evaluator.machine import Budget, BudgetSpentError, Machine, RaisedError, World
from lucid_pipelines.advisor.evaluator.parsing import parse
from lucid_pipelines.advisor.evaluator.semantics import python_semantics
from lucid_pipelines.advisor.evaluator.values import Frame, Func, Lit, Mod, Origin, Site
from lucid_pipelines.advisor.launch.entry import Entry
from lucid_pipelines.advisor.launch.launchers import Launch
from lucid_pipelines.advisor.libraries.standard import standard_library
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree


@dataclass(slots=True)
class Walk:
    """A walked program.

    Attributes:
        stopped_early: why the walk ended before the program did, or ``None``.
    """

    machine: Machine
    main: Mod
    stopped_early: str | None


def walk_program(
    tree: SourceTree,
    launch: Launch,
    entry: Entry,
    steps: int,
    deadline: Callable[[], bool],
    watched: frozenset[str] = frozenset(),
) -> Walk:
    """Evaluate the entry as ``__main__`` with the launch's words and environment.

    Args:
        watched: names of parameters whose values are noted.
    """
    program = Lit(entry.file, Origin(SourceKind.COMMAND_LINE, "<command>", 1))
    machine = Machine(
        tree,
        python_semantics(),
        standard_library(),
        [program, *launch.args],
        _environment(launch),
        entry.cwd,
        _roots(tree, launch, entry),
        world_of(launch),
        Budget(steps=steps, deadline=deadline),
    )
    machine.watched = watched
    for word in launch.args:
        text = str(word.value).partition("=")[2] or str(word.value)
        path = tree.relative(text, entry.cwd)
        if path is not None and path.endswith(".py") and tree.is_file(path):
            machine.modules.config_files.add(path)
    package = entry.module.rpartition(".")[0] if entry.module else ""
    main = machine.modules.at(entry.file, "__main__", package)
    main.name = "__main__"
    stopped: str | None = None
    try:
        _run_main(machine, main, entry)
    except BudgetSpentError as spent:
        stopped = str(spent)
    except RaisedError as error:
        machine.trace.gap(f"uncaught {error.name}")
    except RecursionError:
        machine.trace.gap("recursion")
    return Walk(machine, main, stopped)


def _run_main(machine: Machine, main: Mod, entry: Entry) -> None:
    if entry.file.endswith(".ipynb"):
        _run_notebook(machine, main)
        return
    if entry.function is not None:
        # An installed command imports its module and calls one function.
        main.name = entry.module or "__main__"
    machine.run_module(main)
    if entry.function is not None:
        found = main.globals.get(entry.function.partition(".")[0])
        if found is not None:
            callee = machine.settle(main.globals, entry.function.partition(".")[0])
            machine.caller = Frame(main, main.globals)
            machine.call(callee, [], {}, Site(entry.file, callee.node.lineno if isinstance(callee, Func) else 1))


def _run_notebook(machine: Machine, main: Mod) -> None:
    raw = machine.tree.read_text(main.file)
    source = notebook_source(raw) if raw is not None else None
    tree = parse(source.text) if source is not None else None
    if source is None or tree is None:
        machine.trace.gap("unreadable notebook")
        return
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if line is not None and line <= len(source.lines):
            node.lineno = source.lines[line - 1] or line  # type: ignore[attr-defined]
    main.state = "running"
    main.globals["__name__"] = Lit("__main__")
    machine.run_block(tree.body, Frame(main, main.globals))
    main.state = "done"


def _roots(tree: SourceTree, launch: Launch, entry: Entry) -> list[str]:
    folder = posixpath.dirname(entry.file)
    first = [entry.cwd, folder] if entry.module else [folder, entry.cwd]
    given = launch.env.get("PYTHONPATH")
    for part in str(given.value).split(":") if given is not None else []:
        inside = tree.relative(part, entry.cwd) if part else None
        first.extend([inside] if inside is not None else [])
    parents: list[str] = []
    current = folder
    while current:
        current = posixpath.dirname(current)
        parents.append(current)
    # The package may be installed from the snapshot: its root and the usual source folders.
    return [*first, "", "src", *(part for part in ("lib", "python") if tree.is_dir(part)), *parents]


def world_of(launch: Launch) -> World:
    """Processes and devices that the launch implies."""
    nodes = launch.nodes.value if launch.nodes is not None else None
    per_node = launch.per_node.value if launch.per_node is not None else None
    total = launch.total.value if launch.total is not None else None
    origin = next((word.origin for word in (launch.per_node, launch.total, launch.nodes) if word is not None), None)
    distributed = any(name in ("torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun", "srun", "composer",
        "colossalai", "paddle") or "launch" in name or "distributed" in name
        for name in launch.launchers)  # fmt: skip
    size: int | None = None
    if isinstance(total, int):
        size = total
    elif isinstance(per_node, int):
        size = per_node * nodes if isinstance(nodes, int) else None
    declared = launch.env.get("WORLD_SIZE") if not launch.launchers else None
    if declared is not None and re.fullmatch(r"\d{1,6}", str(declared.value)) and int(str(declared.value)) > 1:
        # One process of several that are started by hand, each with its own rank.
        size, origin, distributed = int(str(declared.value)), declared.origin, True
    tasks = launch.batch.get("ntasks")
    tasks_per_node = launch.batch.get("ntasks_per_node")
    if size is None and "srun" in launch.launchers and tasks is not None and isinstance(tasks.value, int):
        size, origin = tasks.value, tasks.origin
    elif size is None and "srun" in launch.launchers and tasks_per_node is not None and isinstance(nodes, int):
        assert isinstance(tasks_per_node.value, int)
        size, per_node, origin = tasks_per_node.value * nodes, tasks_per_node.value, tasks_per_node.origin
    gpus = launch.visible.value if launch.visible is not None else None
    if gpus is None and launch.gpus_per_node is not None:
        gpus = launch.gpus_per_node.value
    if gpus is None and isinstance(per_node, int):
        gpus = per_node
    if "srun" in launch.launchers and size is None:
        distributed = False
    return World(
        size,
        per_node if isinstance(per_node, int) else None,
        gpus if isinstance(gpus, int) else None,
        distributed,
        origin,
    )


def _environment(launch: Launch) -> dict[str, Lit]:
    """Variables of the launch line, and those that the launcher sets for the first process."""
    env = dict(launch.env)
    world = world_of(launch)
    if not world.distributed:
        return env
    env.setdefault("RANK", Lit("0", world.origin))
    env.setdefault("LOCAL_RANK", Lit("0", world.origin))
    env.setdefault("MASTER_ADDR", Lit("127.0.0.1", world.origin))
    env.setdefault("MASTER_PORT", Lit("29500", world.origin))
    if "srun" in launch.launchers:
        env.setdefault("SLURM_PROCID", Lit("0", world.origin))
        env.setdefault("SLURM_LOCALID", Lit("0", world.origin))
    if world.world_size is not None:
        size = Lit(str(world.world_size), world.origin)
        env.setdefault("WORLD_SIZE", size)
        if "srun" in launch.launchers:
            env.setdefault("SLURM_NTASKS", size)
            env.setdefault("SLURM_NPROCS", size)
        if "mpirun" in launch.launchers:
            env.setdefault("OMPI_COMM_WORLD_SIZE", size)
            env.setdefault("OMPI_COMM_WORLD_RANK", Lit("0", world.origin))
    if world.local_size is not None:
        env.setdefault("LOCAL_WORLD_SIZE", Lit(str(world.local_size), world.origin))
    return env
