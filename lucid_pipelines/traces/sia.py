"""Sia and Pollux job lists (SOSP'23, OSDI'21): what was submitted, not how long it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.sia_profiles import REFERENCE_GPU, SiaProfiles
from lucid_pipelines.traces.table import ReadContext, cell_blocks

CONTRACT = Contract(
    format="sia",
    title="Sia job list",
    source="github.com/siasosp23/artifacts (no licence file; built on petuum/adaptdl, Apache-2.0); SOSP'23",
    columns=(
        Column("name", Kind.TEXT, "job, application and number"),
        Column("time", Kind.NUMBER, "submission", "s from the trace's zero"),
        Column("application", Kind.TEXT, "cifar10, bert, deepspeech2, yolov3, imagenet, ncf, gpt_pmp"),
        Column("num_replicas", Kind.NUMBER, "GPUs that the user would ask for", "GPUs"),
        Column("batch_size", Kind.NUMBER, "samples per step over all GPUs", "samples"),
    ),
    clock="seconds from the trace's own zero; no calendar",
    invariants=("name is unique", "rows are ordered by submission"),
    oddities=(
        (
            "no duration: in Sia it follows from the allocation. Run times come from app_traces.tar.gz "
            f"beside the list or given as profiles ({REFERENCE_GPU} GPUs), or else from the size class that the Pollux "
            "paper gives the application; the notes say which"
        ),
        "no users and no virtual clusters; the application stands in for the job name",
        "time is a whole number in the philly lists and a fraction in the newtrace lists",
    ),
    excludes=("job_id", "submit_time"),
)
GPU_HOURS_BY_CLASS: Mapping[str, float] = {
    "ncf": 0.3,
    "cifar10": 0.3,
    "deepspeech2": 3.2,
    "bert": 3.2,
    "yolov3": 32.0,
    "gpt_pmp": 32.0,
    "imagenet": 320.0,
}
"""Geometric middle of the size classes of the Pollux paper (OSDI'21, section 5.1): small below 1 GPU-hour,
medium 1 to 10, large 10 to 100, extra large 100 to 1,000."""


@dataclass(frozen=True, slots=True)
class SiaLoader:
    contract: Contract = CONTRACT
    has_calendar: bool = False

    def read(self, context: ReadContext) -> None:
        """Read the list and give each job its run time on the GPUs it asks for.

        Raises:
            InputError: the list or the profiles are damaged or lack a column.
        """
        path = context.profiles or context.file.sibling("app_traces.tar")
        profiles = None if path is None else SiaProfiles.read(path)
        if profiles is None:
            context.notes.append(
                "no app_traces.tar.gz beside the list: run times are GPU-hours of the application's size class "
                "divided by the GPUs"
            )
        else:
            context.notes.append(f"run times are computed from measured step times on {REFERENCE_GPU} GPUs")
        for block in cell_blocks(context.file, CONTRACT, context):
            context.collector.take(block, _draft(block, profiles))

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        del file  # Sia's clusters are settings of its simulator, not data
        return None


def _draft(block: CellBlock, profiles: SiaProfiles | None) -> Mapping[str, Any]:
    application = block.text("application")
    gpus, batch = block.number("num_replicas"), block.number("batch_size")
    submit = block.number("time")
    assert application is not None
    assert gpus is not None
    assert batch is not None
    block.fault(batch <= 0, Reason.BAD_NUMBER)
    usable = block.good & (gpus > 0)
    duration = np.full(len(block), np.nan)
    for i in np.flatnonzero(usable):
        duration[i] = _duration_s(str(application[i]), float(gpus[i]), float(batch[i]), profiles)
    block.fault(usable & np.isnan(duration), Reason.UNKNOWN_WORKLOAD)
    return {
        "job_id": block.text("name"),
        "name": application,
        "gpus": gpus,
        "submit_s": submit,
        "duration_s": duration,
        "model": application,
        "batch_size": batch,
        "workload_source": np.full(len(block), "recorded", dtype=object),
    }


def _duration_s(application: str, gpus: float, batch: float, profiles: SiaProfiles | None) -> float:
    if profiles is not None:
        return profiles.duration_s(application, gpus, batch)
    hours = GPU_HOURS_BY_CLASS.get(application)
    return np.nan if hours is None else hours * 3600.0 / gpus


LOADER = SiaLoader()
