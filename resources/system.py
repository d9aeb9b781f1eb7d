"""Build the control plane's world from its settings: adapters behind ports, and the state database."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.ports import Cluster
from lucid_pipelines.resources.advisors import configured_advisor
from lucid_pipelines.resources.clusters.checks import CheckCommand
from lucid_pipelines.resources.clusters.dcgm import DcgmSource
from lucid_pipelines.resources.clusters.gpu_numbers import GpuNumbers
from lucid_pipelines.resources.clusters.local import LocalCluster, real_nodes
from lucid_pipelines.resources.clusters.nodes import DeclaredCheck, LocalNode
from lucid_pipelines.resources.clusters.nvml import NvmlSource
from lucid_pipelines.resources.clusters.request import WrapperOptions, inherited_environment
from lucid_pipelines.resources.clusters.slurm import SlurmCluster, SlurmOptions
from lucid_pipelines.resources.clusters.slurm_adoption import SlurmAdoption
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.language_models.configured import configured_model
from lucid_pipelines.resources.notifiers import configured_notifiers
from lucid_pipelines.settings import ClusterSettings, NodeSettings, Settings
from lucid_pipelines.store import Store


def open_system(settings: Settings) -> System:
    """Open the state database and the cluster of one home folder; both are created when they are new.

    Raises:
        InputError: the settings name something that does not exist.
        ExternalError: the database or the cluster cannot be reached; the message says what to do.
    """
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExternalError(f"the home folder cannot be created; set LUCID_HOME to another: {error}") from error
    cluster = _CLUSTERS[settings.cluster.kind](settings)
    model = configured_model(settings.language_model)
    return System.of(
        settings,
        Store.open(settings.state_url),
        cluster,
        language_model=model,
        notifiers=configured_notifiers(settings.hooks),
        advisor=configured_advisor(settings, model),
    )


def _local(settings: Settings) -> Cluster:
    chosen = settings.cluster
    options = replace(_options(chosen), base_env={**_job_environment(), **chosen.job_env})
    checks = _checks(chosen)
    if chosen.gpus == "real" or (chosen.gpus == "auto" and has_nvml_library()):
        source = NvmlSource(numbers=GpuNumbers(settings.home / "cluster" / "gpus.json"))
        nodes = real_nodes(source, vc=settings.default_vc)
        dcgm = DcgmSource(chosen.dcgm_url) if chosen.dcgm_url is not None else None
        return LocalCluster(
            settings.home / "cluster", nodes, nvml=source, dcgm=dcgm, options=options, check_commands=checks
        )
    return LocalCluster(settings.home / "cluster", declared_nodes(chosen), options=options, check_commands=checks)


def _ssh(settings: Settings) -> Cluster:
    # Loaded where it is used: the client library costs every other command a third of a second.
    from lucid_pipelines.resources.clusters.ssh import SshCluster, SshNode, SshOptions

    chosen, ssh = settings.cluster, settings.cluster.ssh
    nodes = [
        SshNode(_declared(node), node.host or node.name, node.port, node.user, node.internal_host, node.ssh_root)
        for node in chosen.nodes
    ]
    return SshCluster(
        settings.home / "cluster",
        nodes,
        ssh=SshOptions(
            user=ssh.user,
            key_file=ssh.key_file,
            known_hosts=ssh.known_hosts,
            root=ssh.root,
            python=ssh.python,
            connect_timeout_s=ssh.connect_timeout_s,
            call_timeout_s=ssh.call_timeout_s,
            keepalive_s=ssh.keepalive_s,
        ),
        options=_options(chosen),
        gpus=chosen.gpus,
        unreachable_grace_s=ssh.unreachable_grace_s,
        max_checkpoint_mib=ssh.max_checkpoint_mib,
        parallel=ssh.parallel,
        job_env=chosen.job_env,
        check_commands=_checks(chosen),
    )


def _slurm(settings: Settings) -> Cluster:
    chosen, slurm = settings.cluster, settings.cluster.slurm
    base_env = {**_job_environment(), **chosen.job_env}
    return SlurmCluster(
        settings.home / "cluster",
        SlurmCommands(slurm.conf, slurm.bin_dir, base_env, slurm.command_timeout_s),
        slurm=SlurmOptions(
            partitions=slurm.partitions,
            account=slurm.account,
            qos=slurm.qos,
            time_limit=slurm.time_limit,
            python=slurm.python,
            cpus_per_gpu=slurm.cpus_per_gpu,
            memory_mib_per_gpu=slurm.memory_mib_per_gpu,
            share=slurm.share,
            hold=settings.modes.pack is Mode.LIVE,
            submit_as_user=slurm.submit_as_user,
            extra=slurm.extra,
            adopt=None if settings.modes.adopt is Mode.OFF else SlurmAdoption(**slurm.adopt.model_dump()),
            dead_node_fence_s=slurm.dead_node_fence_s,
        ),
        options=replace(_options(chosen), base_env=base_env),
        gpus=chosen.gpus,
        declared={node.name: node for node in declared_nodes(chosen)},
        check_commands=_checks(chosen),
    )


def _options(chosen: ClusterSettings) -> WrapperOptions:
    return WrapperOptions(sample_interval_s=chosen.sample_interval_s, warmup_s=chosen.warmup_s, base_env={})


def _checks(chosen: ClusterSettings) -> dict[str, CheckCommand]:
    return {name: CheckCommand(check.command, check.timeout_s) for name, check in chosen.checks.items()}


def _job_environment() -> dict[str, str]:
    """What every job's environment begins with: the allowed part of ours, with this environment's ``python`` first."""
    env = inherited_environment(os.environ)
    programs = str(Path(sys.executable).parent)
    env["PATH"] = os.pathsep.join(
        [programs, *(part for part in env.get("PATH", os.defpath).split(os.pathsep) if part != programs)]
    )
    return env


def has_nvml_library() -> bool:
    """Whether this machine has NVIDIA's driver. A driver that does not answer is an error, not a reason to pretend."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def declared_nodes(chosen: ClusterSettings) -> list[LocalNode]:
    """The virtual nodes that the settings declare."""
    return [_declared(node) for node in chosen.nodes]


def _declared(node: NodeSettings) -> LocalNode:
    return LocalNode.virtual(
        node.name,
        node.gpus,
        vc=node.vc,
        gpu_type=node.gpu_type,
        memory_mib=node.memory_mib,
        checks={test: DeclaredCheck(False, "declared to fail in the settings") for test in node.failing_checks},
    )


_CLUSTERS: dict[str, Callable[[Settings], Cluster]] = {"local": _local, "ssh": _ssh, "slurm": _slurm}
