"""Build the control plane's world from its settings: adapters behind ports, and the state database."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import Cluster
from lucid_pipelines.resources.clusters.local import LocalCluster, real_nodes
from lucid_pipelines.resources.clusters.nodes import DeclaredCheck, LocalNode
from lucid_pipelines.resources.clusters.nvml import NvmlSource
from lucid_pipelines.resources.clusters.request import WrapperOptions, inherited_environment
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
    return System.of(
        settings,
        Store.open(settings.state_url),
        cluster,
        language_model=configured_model(settings.language_model),
        notifiers=configured_notifiers(settings.hooks),
    )


def _local(settings: Settings) -> Cluster:
    chosen = settings.cluster
    options = WrapperOptions(
        sample_interval_s=chosen.sample_interval_s, warmup_s=chosen.warmup_s, base_env=_job_environment()
    )
    if chosen.gpus == "real" or (chosen.gpus == "auto" and has_nvml_library()):
        source = NvmlSource()
        nodes = real_nodes(source, vc=settings.default_vc)
        return LocalCluster(settings.home / "cluster", nodes, nvml=source, options=options)
    return LocalCluster(settings.home / "cluster", declared_nodes(chosen), options=options)


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


_CLUSTERS: dict[str, Callable[[Settings], Cluster]] = {"local": _local}
