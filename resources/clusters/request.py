"""From a launch request to what the wrapper runs: everything that can be refused is refused here."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.ports import LaunchRequest
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import checked_id
from lucid_pipelines.resources.clusters.nodes import LocalNode, placed_gpus, visible_devices

LOAD_LIMITS: dict[str, float | None] = {"gpu_util_pct": 100.0, "memory_util_pct": 100.0, "memory_used_mib": None}
INHERITED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|CONDA_\w+|LD_LIBRARY_PATH|CPATH"
    r"|CUDA_HOME|CUDA_PATH|NVIDIA_\w+|NCCL_\w+|OMP_NUM_THREADS|MKL_NUM_THREADS|HF_HOME|TORCH_HOME|XDG_\w+"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|(?i:https?_proxy|no_proxy|all_proxy)"
)


@dataclass(frozen=True, slots=True)
class WrapperOptions:
    """How the wrapper works.

    Attributes:
        sample_interval_s: between two GPU samples; 1 to 5 is sensible.
        warmup_s: samples of a job's first seconds that its profile leaves out.
        leftover_grace_s: longest time between TERM and KILL for what a main process leaves behind.
        disk_retry_s: how long a wrapper tries to write its exit record on a disk that refuses.
        base_env: what every job's environment begins with; nothing else of this process reaches a job.
        launch_timeout_s: how long a wrapper may take until the command runs.
    """

    sample_interval_s: float = 2.0
    warmup_s: float = 10.0
    leftover_grace_s: float = 5.0
    disk_retry_s: float = 600.0
    launch_timeout_s: float = 60.0
    base_env: Mapping[str, str] = field(default_factory=lambda: inherited_environment(os.environ))


def inherited_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that jobs may see: search paths, locale, libraries; no credentials of ours."""
    return {name: value for name, value in environ.items() if INHERITED.fullmatch(name)}


def wrapper_spec(request: LaunchRequest, nodes: Mapping[str, LocalNode], options: WrapperOptions) -> dict[str, Any]:
    """The spec of one attempt, as ``wrapper.py`` reads it.

    Raises:
        InputError: a part of the request can never be launched; the message names it.
    """
    gpus = placed_gpus(nodes, request.placement)
    is_virtual = all(gpu.is_virtual for _, gpu in gpus)
    job_dir = request.job_dir.absolute()
    if request.attempt_number < 1:
        raise InputError(f"attempts are counted from 1; got {request.attempt_number}")
    return {
        "format": wrapper.FORMAT,
        "attempt_id": checked_id(request.attempt_id),
        "job_id": _without_nul("the job id", request.job_id),
        "attempt_number": request.attempt_number,
        "attempt_dir": str(job_dir / "attempts" / str(request.attempt_number)),
        "command": _command(request.command),
        "env": _environment(request.env),
        "inherit_env": sorted(options.base_env),
        "cwd": _working_directory(request.code_dir, request.workdir),
        "output_dir": str(job_dir / "outputs"),
        "checkpoint_dir": str(job_dir / "checkpoints"),
        "cuda_visible_devices": visible_devices(nodes, request.placement),
        "node": request.placement.shares[0].node,
        "placement": request.placement.to_json(),
        "gpus": [
            {"node": share.node, "index": gpu.index, "uuid": gpu.uuid, "memory_mib": gpu.memory_mib}
            for share, gpu in gpus
        ],
        "telemetry": "declared" if is_virtual else "nvml",
        "declared_load": _declared_load(request.declared_load),
        "grace_s": checked_grace(request.grace_s),
        "leftover_grace_s": options.leftover_grace_s,
        "sample_interval_s": options.sample_interval_s,
        "warmup_s": options.warmup_s,
        "disk_retry_s": options.disk_retry_s,
    }


def checked_grace(grace_s: float) -> float:
    if not math.isfinite(grace_s) or grace_s < 0:
        raise InputError(f"a grace period is a number of seconds from 0 up; got {grace_s!r}")
    return float(grace_s)


def _command(command: tuple[str, ...]) -> list[str]:
    if not command or not command[0]:
        raise InputError(f"a job needs a command: a program and its arguments; got {list(command)!r}")
    return [_without_nul("an argument of the command", part) for part in command]


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name:
            raise InputError(f"an environment variable needs a name without '='; got {name!r}")
        _without_nul("the name of an environment variable", name)
        _without_nul(f"the environment variable {name}", value)
    return dict(env)


def _working_directory(code_dir: Path, workdir: str) -> str:
    _without_nul("the working directory", workdir)
    depth = 0
    for part in PurePosixPath(workdir).parts:
        depth += {"..": -1, ".": 0}.get(part, 1)
        if part == "/" or depth < 0:
            raise InputError(f"the working directory is a folder inside the submitted code; got {workdir!r}")
    return str(code_dir.absolute() / workdir)


def _declared_load(load: Mapping[str, float] | None) -> dict[str, float] | None:
    if load is None:
        return None
    for name, value in load.items():
        if name not in LOAD_LIMITS:
            known = ", ".join(LOAD_LIMITS)
            raise InputError(f"a declared load has {known}{did_you_mean(name, LOAD_LIMITS)}; got {name!r}")
        if wrapper.within(value, LOAD_LIMITS[name]) is None:
            raise InputError(f"the declared {name} is out of range; got {value!r}")
    return dict(load)


def _without_nul(what: str, text: str) -> str:
    if "\0" in text:
        raise InputError(f"{what} cannot hold a NUL byte; got {text!r}")
    return text
