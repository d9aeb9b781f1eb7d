"""`lucid doctor`: what is on, what is off and why."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from rich.table import Table
from rich.text import Text

from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.cli.options import AsJson, Home, has_state
from lucid_pipelines.cli.output import console, one_line, print_json
from lucid_pipelines.control.pool import owned_nodes, profiler_vc
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory, NodeCondition
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.ports import Cluster
from lucid_pipelines.resources.advisors import STANDALONE, open_advisor
from lucid_pipelines.resources.clusters import slurm_findings
from lucid_pipelines.resources.clusters.slurm import SlurmCluster
from lucid_pipelines.resources.notifiers import configured_notifiers, missing_secrets
from lucid_pipelines.resources.system import has_nvml_library, open_system
from lucid_pipelines.service.control import sensor_ticks
from lucid_pipelines.service.dagster_home import RunFiles, run_files
from lucid_pipelines.service.status import is_running, read_status
from lucid_pipelines.settings import Settings, load_settings

_LOW_DISK_BYTES = 2 << 30


class Level(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``advice`` says what to do about a problem."""

    subject: str
    level: Level
    text: str
    advice: str | None = None


def doctor(as_json: AsJson = False, home: Home = None) -> None:
    """Check the installation and the running service; exit status 9 when something needs attention."""
    try:
        settings = load_settings(home)
    except LucidError as error:
        findings = [Finding("settings", Level.PROBLEM, str(error), "mend the settings file or the environment")]
    else:
        findings = examine(settings)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        console.print(_table(findings))
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise typer.Exit(ExitStatus.NEEDS_ATTENTION)


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order in which a person would look. A check that breaks is itself a finding."""
    findings: list[Finding] = []
    checks: tuple[Callable[[Settings], list[Finding]], ...] = (
        *(_machine, _state, _cluster, _service),
        *(_advisor, _modes, _hooks),
    )
    for check in checks:
        try:
            findings += check(settings)
        except LucidError as error:
            findings.append(Finding(check.__name__.strip("_"), Level.PROBLEM, str(error)))
    return findings


def _machine(settings: Settings) -> list[Finding]:
    python = f"Python {sys.version.split()[0]} in {sys.prefix}"
    place = settings.home if settings.home.exists() else settings.home.parent
    if not place.exists():
        return [Finding("python", Level.OK, python)]
    free = shutil.disk_usage(place).free
    level = Level.OK if free >= _LOW_DISK_BYTES else Level.PROBLEM
    advice = None if level is Level.OK else "free some disk space: logs, checkpoints and snapshots need it"
    return [
        Finding("python", Level.OK, python),
        Finding("disk", level, f"{free / (1 << 30):.1f} GiB free below {settings.home}", advice),
    ]


def _state(settings: Settings) -> list[Finding]:
    if not has_state(settings):
        text = f"no state folder yet: {settings.home}"
        return [Finding("home", Level.NOTE, text, "`lucid submit` or `lucid up` makes it")]
    system = open_system(settings)
    store = system.store
    try:
        counts = ", ".join(f"{count} {state.value}" for state, count in store.jobs.counts().items() if count)
        found = [Finding("state database", Level.OK, f"{store.url}: {counts or 'no job yet'}")]
        pending, oldest = store.exits.pending()
        lag_s = (system.clock.now() - oldest).total_seconds() if oldest else 0.0
        late = lag_s > settings.hooks.lag_alarm_s
        advice = "see exit_sensor and failure_handling_job in the UI" if late else None
        text = f"{pending} abnormal exits wait, the oldest for {lag_s:.0f} s" if pending else "no abnormal exit waits"
        found.append(Finding("exit outbox", Level.PROBLEM if late else Level.OK, text, advice))
        for name, count in store.counters.all().items():
            found.append(Finding("counter", Level.NOTE, f"{name}: {count}"))
        for reason in store.nodes.overdue(now=system.clock.now()):
            text = f"{reason.node} isolated by {reason.owner} past its deadline: {reason.reason}"
            found.append(Finding("isolation", Level.PROBLEM, text, "look at the node; lift or extend the isolation"))
        return found
    finally:
        store.close()


def _cluster(settings: Settings) -> list[Finding]:
    if has_state(settings):
        return _cluster_of(settings)
    with TemporaryDirectory() as scratch:  # looking must not make the home folder
        return _cluster_of(settings.model_copy(update={"home": Path(scratch)}))


def _cluster_of(settings: Settings) -> list[Finding]:
    system = open_system(settings)
    try:
        inventory = system.cluster.inventory()
        able = system.cluster.capabilities
        profiling = profiling_finding(system, inventory)
    finally:
        system.store.close()
    gpus = sum(node.gpu_count for node in inventory.nodes)
    kind = kind_of_gpus(settings, inventory)
    found = [
        Finding("cluster", Level.OK, f"{settings.cluster.kind}: {len(inventory.nodes)} nodes, {gpus} GPUs ({kind})"),
        _nvml(),
    ]
    off = [name for name, is_able in asdict(able).items() if is_able is False]
    if off:
        found.append(Finding("cluster", Level.NOTE, f"not possible on this kind of cluster: {', '.join(off)}"))
    found += [
        Finding(
            "node",
            Level.PROBLEM,
            f"{node.name} is {node.condition.value}" + (f": {node.detail}" if node.detail else ""),
        )
        for node in inventory.nodes
        if node.condition is not NodeCondition.READY
    ]
    return [*found, profiling, *_slurm(system.cluster)]


def kind_of_gpus(settings: Settings, inventory: Inventory) -> str:
    """Whether GPUs are real or declared, as far as the nodes that answer tell."""
    if settings.cluster.gpus == "virtual":
        return "virtual: declared in the settings"
    seen = [node for node in inventory.nodes if node.condition is not NodeCondition.UNOBSERVED]
    real = sum(any(not gpu.is_virtual for gpu in node.gpus) for node in seen)
    virtual, silent = len(seen) - real, len(inventory.nodes) - len(seen)
    is_mixed = real < len(inventory.nodes)
    told: list[str] = []
    if real:
        told.append("real, through NVML" + (f", on {real} of {len(inventory.nodes)} nodes" if is_mixed else ""))
    if virtual:
        where = "this machine has" if settings.cluster.kind == "local" else "these nodes have"
        told.append("virtual" + (f", on {virtual}" if real or silent else "") + f": {where} no NVIDIA driver")
    if silent:
        told.append(f"not known of {silent} nodes that do not answer")
    return "; ".join(told)


def profiling_finding(system: System, inventory: Inventory) -> Finding:
    """Which nodes only profile, and whether they are as many as the site wants."""
    name, wanted = profiler_vc(system), system.settings.profiling.nodes
    if name is None:
        return Finding("profiling", Level.NOTE, f"the policy {system.policy.name} profiles nobody")
    pool = [node.name for node in owned_nodes(system, inventory.nodes) if node.vc == name]
    text = f"{', '.join(pool)} only profile" if pool else "no node only profiles: jobs are looked at while they run"
    is_declared = any(node.vc == name for node in inventory.nodes)
    if wanted is not None and len(pool) < wanted and not is_declared:
        advice = "each virtual cluster keeps its largest node; lower profiling.nodes or declare nodes with vc: profiler"
        return Finding("profiling", Level.PROBLEM, f"{text}; profiling.nodes asks for {wanted}", advice)
    return Finding("profiling", Level.OK if pool else Level.NOTE, text)


def _slurm(cluster: Cluster) -> list[Finding]:
    """What a site's Slurm makes possible and which lines of its configuration would enable more."""
    if not isinstance(cluster, SlurmCluster):
        return []
    return [
        Finding(
            "slurm",
            Level.PROBLEM if item.is_problem else Level.NOTE if item.advice else Level.OK,
            item.text,
            item.advice,
        )
        for item in slurm_findings.examine(cluster)
    ]


def _nvml() -> Finding:
    if has_nvml_library():
        return Finding("nvml", Level.OK, "found")
    return Finding("nvml", Level.NOTE, "not found: real GPUs cannot be seen; virtual ones need no NVML")


def _service(settings: Settings) -> list[Finding]:
    files = _files_of_running(settings)
    if files is None:
        return [Finding("service", Level.NOTE, "not running; jobs can be submitted and wait", "lucid up")]
    status = read_status(files)
    if status is None:
        return [Finding("service", Level.PROBLEM, "a supervisor runs and says nothing", f"see {files.folder}")]
    found = [Finding("service", Level.OK, f"{status.phase} since {status.started_at} at {status.url}")]
    for name, process in status.processes.items():
        if process.restarts or process.last_exit:
            text = f"{name} was started again {process.restarts} times; last end {process.last_exit}"
            found.append(Finding("service", Level.NOTE, text, f"see {files.log(name)}"))
    ticks = sensor_ticks(status.url)
    if ticks is None:
        return [
            *found,
            Finding("ui", Level.PROBLEM, f"{status.url} does not answer", f"see {files.log('webserver')}"),
        ]
    for name, tick in ticks.items():
        if tick.error is not None:
            found.append(
                Finding("sensor", Level.PROBLEM, f"{name} fails: {tick.error.strip()}", "see its ticks in the UI")
            )
        else:
            found.append(Finding("sensor", Level.OK, f"{name} ticks"))
    return found


def _files_of_running(settings: Settings) -> RunFiles | None:
    """The files of the running service; ``None`` when none runs."""
    if not settings.home.is_dir():
        return None  # asking makes the folder
    files = run_files(settings)
    return files if is_running(files) else None


def _advisor(settings: Settings) -> list[Finding]:
    """Whether the history index can be asked, and whether what the policy orders by is in force."""
    if settings.modes.advise is Mode.OFF:
        return [Finding("advisor", Level.NOTE, "modes.advise is off: submissions get no advice")]
    if not has_state(settings) and settings.advisor.index is None:
        return [Finding("advisor", Level.NOTE, "no history yet")]
    try:
        index = open_advisor(settings).index
        found = [Finding("advisor", Level.OK, f"{index.count()} past jobs, embedder {index.space.embedder}")]
    except LucidError as error:
        found = [Finding("advisor", Level.PROBLEM, str(error), "see docs/advisor.md")]
    if settings.scheduling.policy == STANDALONE and settings.modes.advise is not Mode.LIVE:
        text = "the policy standalone orders by advice, which is only recorded now"
        found.append(Finding("advisor", Level.PROBLEM, text, "set modes.advise to live"))
    return found


def _modes(settings: Settings) -> list[Finding]:
    files = _files_of_running(settings)
    status = read_status(files) if files is not None else None
    found: list[Finding] = []
    for name, mode in settings.modes:
        real = mode.value if status is None else status.modes.get(name, mode.value)
        text = f"{name}: {real}"
        if real == mode.value:
            found.append(Finding("mode", Level.NOTE, text))
        else:
            text += f" in the running service, {mode.value} by the settings that this command reads"
            advice = "write modes into lucid.yaml, so that every command tells of the same; `lucid down`, `lucid up`"
            found.append(Finding("mode", Level.NOTE, text, advice))
    return found


def _hooks(settings: Settings) -> list[Finding]:
    channels = sorted(configured_notifiers(settings.hooks))
    if not channels:
        return [Finding("hooks", Level.NOTE, "off: nobody is told of failures by webhook, chat or mail")]
    found = [Finding("hooks", Level.OK, f"{', '.join(channels)}: {', '.join(settings.hooks.tell)}")]
    if missing := missing_secrets(settings.hooks):
        text = f"not in this environment: {', '.join(missing)}"
        found.append(Finding("hooks", Level.NOTE, text, "the service needs them in its own environment"))
    return found


_STYLES = {Level.OK: "green", Level.NOTE: "cyan", Level.PROBLEM: "bold red"}


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for finding in findings:
        advice = f" → {finding.advice}" if finding.advice else ""
        table.add_row(
            Text(finding.level.value, style=_STYLES[finding.level]), finding.subject, one_line(finding.text + advice)
        )
    return table
