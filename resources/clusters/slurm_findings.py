"""What a site's Slurm makes possible, read from its own configuration, and which lines would enable more."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.resources.clusters.slurm import SlurmCluster
from lucid_pipelines.resources.clusters.slurm_drains import MARK
from lucid_pipelines.resources.clusters.slurm_gres import node_gpus


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
    found += _config(_settings(commands.run("scontrol", "show", "config")))
    ours = [node for node in commands.nodes() if cluster.is_ours(node)]
    if not ours:
        return [*found, SlurmFinding("no node has GPUs in gres.conf", "see cluster.slurm.partitions", True)]
    layouts = [node_gpus(node.gres) for node in ours]
    if all(layout.can_share for layout in layouts):
        found.append(SlurmFinding("GPUs are pinned one by one, and pairs by typed shards"))
    elif all(layout.can_pin for layout in layouts):
        found.append(
            SlurmFinding("GPUs are pinned one by one; pairs are not possible", _shard_lines(len(layouts[0].types)))
        )
    else:
        found.append(
            SlurmFinding(
                "Slurm chooses the GPUs of a node by itself; pairs are not possible",
                _typed_lines(len(layouts[0].types)),
            )
        )
    drained = [node for node in ours if "DRAIN" in node.states and not node.reason.startswith(MARK)]
    found += [
        SlurmFinding(f"{node.name} is drained by {node.reason_by or 'somebody'}: {node.reason}") for node in drained
    ]
    return found


def _config(config: dict[str, str]) -> list[SlurmFinding]:
    found: list[SlurmFinding] = []
    if "cgroup" not in config.get("ProctrackType", ""):
        found.append(
            SlurmFinding(
                f"ProctrackType is {config.get('ProctrackType')}: processes that detach can outlive their job",
                "set ProctrackType=proctrack/cgroup in slurm.conf",
            )
        )
    age = config.get("MinJobAge", "").split()
    if age and age[0].isdigit() and int(age[0]) < 60:
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
    if "gpu" not in config.get("GresTypes", ""):
        found.append(SlurmFinding("GresTypes names no gpu", "set GresTypes=gpu,shard in slurm.conf", True))
    return found


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
