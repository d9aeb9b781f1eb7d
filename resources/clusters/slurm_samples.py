"""What the wrappers of running attempts measured last: Slurm itself tells nothing of a GPU's load."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.attempts import live_ids
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES, Layout
from lucid_pipelines.resources.clusters.loads import GpuLoad, attempt_load, virtual_samples
from lucid_pipelines.resources.clusters.slurm_view import SlurmView

_TAIL_BYTES = 64 * 1024


def last_samples(view: SlurmView, layout: Layout, now: datetime) -> Sequence[GpuSample]:
    """Of GPUs without a job of ours nothing is known (no sample).

    Raises:
        ExternalError: the cluster's folder cannot be read, or Slurm has never named its nodes.
    """
    nodes = list(view.local_nodes().values())
    loads: list[GpuLoad] = []
    samples: list[GpuSample] = []
    for attempt_id in live_ids(layout):
        folder = layout.attempts / attempt_id
        if os.path.lexists(folder / wrapper.EXIT):
            layout.unmark_live(attempt_id)
            continue
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            if not os.path.lexists(folder / wrapper.STARTED):
                continue
            if view.is_virtual:
                loads += attempt_load(folder)
            else:
                samples += _measured(folder, now)
    return virtual_samples(nodes, loads, now) if view.is_virtual else samples


def _measured(folder: Path, now: datetime) -> list[GpuSample]:
    """The last line that the wrapper wrote into its samples, unless it is old."""
    with (folder / wrapper.SAMPLES).open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        row = json.loads(file.read().splitlines()[-1])
    spec = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
    at = datetime.fromtimestamp(float(row["at"]), UTC)
    if now - at > timedelta(seconds=10 * float(spec["sample_interval_s"])):
        return []
    return [
        GpuSample(spec["node"], int(i), at, "nvml", wrapper.within(u, 100.0), wrapper.within(m, 100.0), used)
        for i, u, m, used in row["gpus"]
    ]
