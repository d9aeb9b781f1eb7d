"""Reading a job's metadata from its snapshot and launch line, without a language model.

Paper section 12 asks for model, task, dataset, iterations and their type, batch size and hardware; here
they come from walking the program as it would run (see :mod:`lucid_pipelines.advisor.evaluator`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

from lucid_pipelines.advisor.configs.load import ConfigTextError
from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.evaluator.machine import deadline_after
from lucid_pipelines.advisor.evaluator.values import Lit, Origin
from lucid_pipelines.advisor.fields.batch import read_batch
from lucid_pipelines.advisor.fields.data import read_dataset
from lucid_pipelines.advisor.fields.facts import JobFacts
from lucid_pipelines.advisor.fields.identity import read_model, read_shape
from lucid_pipelines.advisor.fields.names import (
    ACCUMULATION,
    DEVICE_BATCH,
    EPOCHS,
    GLOBAL_BATCH,
    LEARNING_RATE,
    OPTIMIZER,
    PLAIN_BATCH,
)
from lucid_pipelines.advisor.fields.optimisation import read_optimisation
from lucid_pipelines.advisor.fields.resources import read_resources
from lucid_pipelines.advisor.fields.schedule import read_schedule
from lucid_pipelines.advisor.fields.settings_table import Trust, build_table
from lucid_pipelines.advisor.fields.task import read_framework, read_task
from lucid_pipelines.advisor.launch.binary_usage import binary_settings
from lucid_pipelines.advisor.launch.command import read_launch, words_of_command
from lucid_pipelines.advisor.launch.config_words import named_configs
from lucid_pipelines.advisor.launch.entry import Entry, find_entry
from lucid_pipelines.advisor.launch.launchers import Launch
from lucid_pipelines.advisor.metadata import JobMetadata, ReadingReport, SourceKind, unicode_text
from lucid_pipelines.advisor.program import Walk, walk_program
from lucid_pipelines.advisor.source_tree import SourceTree
from lucid_pipelines.domain.errors import did_you_mean

WATCHED = frozenset({*LEARNING_RATE, *EPOCHS, *GLOBAL_BATCH, *DEVICE_BATCH, *PLAIN_BATCH, *ACCUMULATION, *OPTIMIZER})
"""Parameters whose values say something about the job, wherever they are passed."""


def extract_metadata(
    root: Path,
    launch: LaunchDescription,
    limits: ExtractionLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> JobMetadata:
    """Read a job's metadata.

    Args:
        root: the snapshot's folder.
        launch: how the job is started.

    Raises:
        NotFoundError: ``root`` is no folder.
    """
    bounds = limits or ExtractionLimits()
    started = clock()
    tree = SourceTree(root, bounds.read)
    reader = _Reader(tree, launch, bounds, deadline_after(bounds.wall_s, clock))
    facts, walk = reader.read()
    for read in (read_model, read_shape, read_dataset):
        read(facts)
    processes = read_resources(facts)
    read_schedule(facts)
    read_batch(facts, processes)
    read_optimisation(facts)
    read_task(facts)
    read_framework(facts, tree)
    return JobMetadata(
        MappingProxyType(dict(facts.found)),
        MappingProxyType(dict(facts.missing)),
        _report(tree, facts, walk, reader, clock() - started),
    )


def _report(tree: SourceTree, facts: JobFacts, walk: Walk | None, reader: _Reader, wall_s: float) -> ReadingReport:
    skipped = dict(tree.skipped)
    notes = list(facts.notes)
    if walk is not None:
        gaps = sorted(walk.machine.trace.gaps.items(), key=lambda item: -item[1])[:6]
        notes.extend(f"not followed: {what} ({count})" for what, count in gaps)
    return ReadingReport(
        wall_s=wall_s,
        files_read=tree.files_read,
        bytes_read=tree.bytes_read,
        steps=reader.steps,
        entry=unicode_text(facts.entry.file) if facts.entry is not None else None,
        skipped=MappingProxyType(skipped),
        notes=tuple(unicode_text(note) for note in notes),
        stopped_early=walk.stopped_early if walk is not None else None,
    )


class _Reader:
    """Finds the program and walks through it; follows launches that the program itself makes."""

    def __init__(
        self, tree: SourceTree, description: LaunchDescription, limits: ExtractionLimits, deadline: Callable[[], bool]
    ) -> None:
        self._tree = tree
        self._description = description
        self._limits = limits
        self._deadline = deadline
        self.steps = 0

    def read(self) -> tuple[JobFacts, Walk | None]:
        description = self._description
        launches = read_launch(
            self._tree, description.command, description.env, _folder(self._tree, description), description.entry
        )
        launch = launches[0] if launches else None
        entry, walk = self._follow(launch, description.entry)
        launch, entry, walk = self._nested(launch, entry, walk)
        return self._facts(launch, entry, walk), walk

    def _follow(self, launch: Launch | None, hint: str | None) -> tuple[Entry | None, Walk | None]:
        if launch is None:
            return None, None
        entry = find_entry(self._tree, launch, hint)
        if entry is None and hint is not None and launch.kind in ("console",
            "notebook") and hint.endswith(".ipynb") and self._tree.is_file(hint):  # fmt: skip
            entry = Entry(hint, "", certain=False)
        if entry is None or not entry.file.endswith((".py", ".ipynb")):
            return entry, None
        walk = walk_program(self._tree, launch, entry, self._limits.steps, self._deadline, WATCHED)
        self.steps += walk.machine.steps
        return entry, walk

    def _nested(
        self, launch: Launch | None, entry: Entry | None, walk: Walk | None
    ) -> tuple[Launch | None, Entry | None, Walk | None]:
        """A program that only starts another one: the other one is the job."""
        for _ in range(self._limits.nested_launches):
            if walk is None or launch is None or not walk.machine.trace.launches or trains(walk):
                break
            inner = self._inner_launch(walk, launch)
            if inner is None:
                break
            inner_entry, inner_walk = self._follow(inner, None)
            if inner_walk is None:
                break
            launch, entry, walk = inner, inner_entry, inner_walk
        return launch, entry, walk

    def _inner_launch(self, walk: Walk, outer: Launch) -> Launch | None:
        for words, _ in walk.machine.trace.launches:
            texts = [str(word.value) for word in words]
            env = {name: str(value.value) for name, value in outer.env.items()}
            found = read_launch(self._tree, texts, env, outer.cwd)
            for launch in found[:1]:
                if launch.kind in ("file", "module"):
                    launch.launchers = (*outer.launchers, *launch.launchers)
                    launch.all_visible = launch.all_visible or (launch.per_node is None and launch.total is None)
                    launch.nodes = launch.nodes or outer.nodes
                    return launch
        return None

    def _facts(self, launch: Launch | None, entry: Entry | None, walk: Walk | None) -> JobFacts:
        description = self._description
        cwd = entry.cwd if entry is not None else (launch.cwd if launch is not None else "")
        configs = []
        if launch is not None:
            try:
                configs = named_configs(self._tree, launch, cwd)
            except ConfigTextError:
                configs = []
        machine = walk.machine if walk is not None else None
        names = walk.main.globals if walk is not None else {}
        table = build_table(
            machine.trace if machine is not None else None, launch.args if launch is not None else [], configs, names
        )
        for name, value in binary_settings(self._tree, launch) if launch is not None and machine is None else []:
            table.add(name, value, value, Trust.PARSED, "usage")
        facts = JobFacts(launch, entry, table, machine, names)
        facts.command_words = words_of_command(description.command)
        facts.project_title = project_title(self._tree)
        facts.complete = walk is not None and walk.stopped_early is None
        if entry is not None and not entry.certain:
            facts.notes.append(f"the launch line alone does not name the entry; taken: {entry.file}")
        if launch is None:
            facts.notes.append("no program was found on the launch line")
        elif entry is None:
            folder, _, name = launch.target.rpartition("/")
            around = self._tree.children("/".join(part for part in (launch.cwd, folder) if part))[1]
            hint = did_you_mean(name, around)
            facts.notes.append(f"the program is not in the snapshot{hint}: {launch.target}")
        facts.requested_gpus = _requested(description.gpus, "gpus")
        facts.requested_nodes = _requested(description.nodes, "nodes")
        return facts


def trains(walk: Walk) -> bool:
    """Whether a walked program trains itself, rather than starting another that does."""
    return any(
        event.path.rpartition(".")[2] in ("DataLoader", "backward", "fit", "Trainer", "Adam", "AdamW", "SGD")
        for event in walk.machine.trace.calls
    )


def project_title(tree: SourceTree) -> Lit | None:
    """The first heading of the README, as the project's own name for what it is."""
    for file in ("README.md", "README.rst", "readme.md", "README", "README.txt"):
        text = tree.read_text(file) if tree.is_file(file) else None
        for number, line in enumerate((text or "").split("\n")[:40], 1):
            title = re.sub(r"<[^>]*>|!?\[[^\]]*\]\([^)]*\)|[#*=`]", " ", line[:400]).strip()
            if len(title) > 2 and re.search(r"[A-Za-z]{2}", title):
                return Lit(title[:200], Origin(SourceKind.CODE, file, number))
    return None


def _requested(count: int | None, name: str) -> Lit | None:
    return None if count is None else Lit(count, Origin(SourceKind.LAUNCHER, "<request>", None, name))


def _folder(tree: SourceTree, description: LaunchDescription) -> str:
    inside = tree.relative(description.workdir) if description.workdir not in ("", ".") else ""
    return inside if inside is not None and tree.is_dir(inside) else ""
