"""What a site's Slurm makes possible, read from its own configuration, and which lines would enable more."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters.slurm import SlurmCluster
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_drains import MARK
from lucid_pipelines.resources.clusters.slurm_gres import node_gpus

_INSIDE = "the second of a pair runs inside the allocation of the first, and ends with it at its time limit"


@dataclass(frozen=True, slots=True)
class SlurmFinding:
    """One finding; ``advice`` says what to do, ``is_problem`` whether somebody must."""

    text: str
    advice: str | None = None
    is_problem: bool = False


def examine(cluster: SlurmCluster) -> list[SlurmFinding]:
    """Ask Slurm three things. Raises ``ExternalError`` when it does not answer."""
    commands = cluster.commands
    major, minor = commands.version()
    found = [SlurmFinding(f"Slurm {major}.{minor:02d} answers")]
    config = _settings(commands.run("scontrol", "show", "config"))
    accounting = _accounting(commands, config)
    found += [*_config(config, has_accounting=accounting.advice is None), accounting]
    ours = [node for node in commands.nodes() if cluster.is_ours(node)]
    if not ours:
        return [*found, SlurmFinding("no node has GPUs in gres.conf", "see cluster.slurm.partitions", True)]
    layouts = [node_gpus(node.gres) for node in ours]
    if all(layout.can_share for layout in layouts):
        found.append(SlurmFinding("GPUs are pinned one by one, and pairs by typed shards"))
    elif all(layout.can_pin for layout in layouts):
        found.append(SlurmFinding(f"GPUs are pinned one by one; {_INSIDE}", _shard_lines(len(layouts[0].types))))
    else:
        found.append(
            SlurmFinding(
                f"Slurm chooses the GPUs of a node by itself; {_INSIDE}",
                _typed_lines(len(layouts[0].types)),
            )
        )
    drained = [node for node in ours if "DRAIN" in node.states and not node.reason.startswith(MARK)]
    found += [
        SlurmFinding(f"{node.name} is drained by {node.reason_by or 'somebody'}: {node.reason}") for node in drained
    ]
    return found


def _config(config: dict[str, str], *, has_accounting: bool) -> list[SlurmFinding]:
    found: list[SlurmFinding] = []
    if "cgroup" not in config.get("ProctrackType", ""):
        found.append(
            SlurmFinding(
                f"ProctrackType is {config.get('ProctrackType')}: processes that detach can outlive their job",
                "set ProctrackType=proctrack/cgroup in slurm.conf",
            )
        )
    age = config.get("MinJobAge", "").split()
    if age and age[0].isdigit() and int(age[0]) < 60 and not has_accounting:
        found.append(
            SlurmFinding(
                f"MinJobAge is {age[0]} s: an end may be forgotten before it is read",
                "set MinJobAge=300 in slurm.conf",
                True,
            )
        )
    kill = config.get("KillWait", "").split()
    if kill and kill[0].isdigit():
        found.append(SlurmFinding(f"KillWait is {kill[0]} s: what Slurm itself ends has so long to write a checkpoint"))
    found += _power_saving(config)
    if "gpu" not in config.get("GresTypes", ""):
        found.append(SlurmFinding("GresTypes names no gpu", "set GresTypes=gpu,shard in slurm.conf", True))
    return found


def _power_saving(config: dict[str, str]) -> list[SlurmFinding]:
    """What it means for our placing that Slurm puts idle nodes to sleep."""
    if config.get("SuspendProgram", "(null)") in ("", "(null)"):
        return []
    allowed = config.get("ResumeTimeout", "a while")
    found = [SlurmFinding(f"idle nodes are put to sleep and count as free; one may take {allowed} to wake for a job")]
    if "cloud" not in config.get("PrivateData", ""):
        found.append(
            SlurmFinding(
                "sleeping nodes of State=CLOUD are hidden: nothing is placed on them",
                "where there are such nodes, set PrivateData=cloud in slurm.conf (it shows them)",
            )
        )
    return found


def _accounting(commands: SlurmCommands, config: dict[str, str]) -> SlurmFinding:
    """Whether an end that the controller has forgotten can still be read."""
    kind = config.get("AccountingStorageType") or "accounting_storage/none"
    if kind.endswith("/none") or kind == "(null)":
        return SlurmFinding(
            f"no accounting ({kind}): how a job ended is known for MinJobAge ({config.get('MinJobAge')}) only",
            "nothing must be done; with slurmdbd, ends are found after a longer standstill of ours too",
        )
    try:
        commands.run("sacct", "--noheader", "--allocations", "--jobs=1", "--format=JobIDRaw,State")
    except ExternalError as error:
        return SlurmFinding(f"ends cannot be looked up: {error}", "see slurmdbd's log", True)
    return SlurmFinding("ends that the controller has forgotten are read from accounting")


def _settings(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _typed_lines(count: int) -> str:
    last = max(0, count - 1)
    return (
        f"give each GPU a type of its own: in gres.conf Name=gpu Type=g0 File=/dev/nvidia0 … Type=g{last} "
        f"File=/dev/nvidia{last}, and gpu:g0:1,…,gpu:g{last}:1 in the node's Gres; {_shard_lines(count)}"
    )


def _shard_lines(count: int) -> str:
    last = max(0, count - 1)
    return (
        "for pairs: GresTypes=gpu,shard; in gres.conf Name=shard Type=g0 Count=2 File=/dev/nvidia0 … "
        f"Type=g{last} File=/dev/nvidia{last}; and shard:g0:2,…,shard:g{last}:2 in the node's Gres"
    )
