"""Gavel job lists (OSDI'20): steps to do, which a throughput table turns into run times."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.table import ReadContext, cell_blocks, numbered_ids

REFERENCE_GPU = "v100"
THROUGHPUT_FILES = ("oracle_throughputs.json", "simulation_throughputs.json", "physical_cluster_throughputs.json")

CONTRACT = Contract(
    format="gavel",
    title="Gavel job list (.trace)",
    source="github.com/stanford-futuredata/gavel (MIT); Narayanan et al., OSDI'20",
    columns=(
        Column("job_type", Kind.TEXT, "model and batch size, e.g. ResNet-18 (batch size 32)"),
        Column("command", Kind.TEXT, "command line"),
        Column("steps_argument", Kind.TEXT, "the option that takes the number of steps"),
        Column("needs_data_dir", Kind.FLAG, "whether the command takes a data folder"),
        Column("total_steps", Kind.NUMBER, "steps to do", "steps"),
        Column("arrival_time", Kind.NUMBER, "submission", "s from the trace's zero"),
        Column("scale_factor", Kind.NUMBER, "GPUs", "GPUs"),
    ),
    clock="seconds from the trace's own zero; no calendar",
    invariants=("run time = total_steps / steps per second alone on the reference GPU",),
    oddities=(
        (
            f"no duration: it needs a throughput table beside the list ({THROUGHPUT_FILES[0]}) or given as profiles; "
            f"run times are those on {REFERENCE_GPU}"
        ),
        (
            "where the table has no row for the number of GPUs, the one-GPU speed times the GPUs is taken "
            "(data-parallel steps), and such jobs are counted as a repair"
        ),
        "no ids, users or virtual clusters (the file is one VC of Philly); ids are made from the row number",
        "the models were assigned at random by the authors",
    ),
    separator="\t",
    headerless=True,
)
_MODEL = re.compile(r"^(?P<model>.*?)(?: \(batch size (?P<batch>\d+)\))?$")


@dataclass(frozen=True, slots=True)
class GavelLoader:
    contract: Contract = CONTRACT
    has_calendar: bool = False

    def read(self, context: ReadContext) -> None:
        """Read the list and turn steps into seconds.

        Raises:
            InputError: the list is damaged, or no usable throughput table is at hand.
        """
        path = context.profiles or context.file.sibling(*THROUGHPUT_FILES)
        if path is None:
            raise InputError(
                "a Gavel list counts steps, not seconds: put the throughput table "
                f"{THROUGHPUT_FILES[0]} beside it or give it as profiles; got only {context.file.label}"
            )
        speeds = read_speeds(path)
        for block in cell_blocks(context.file, CONTRACT, context):
            context.collector.take(block, _draft(block, speeds, context))

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        del file  # Gavel's clusters are settings of its simulator, not data
        return None


def read_speeds(path: Path) -> Mapping[tuple[str, int], float]:
    """Steps per second alone on the reference GPU by job type and number of GPUs.

    Raises:
        InputError: the file is not a Gavel throughput table.
    """
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        table = document[REFERENCE_GPU]
        return {_key(key): float(row["null"]) for key, row in table.items()}
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"this is not a Gavel throughput table ({error!r}): {path.name}") from error


def _key(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"\('(.*)', (\d+)\)", text)
    return (match[1], int(match[2])) if match else (text, 1)


def _draft(block: CellBlock, speeds: Mapping[tuple[str, int], float], context: ReadContext) -> Mapping[str, Any]:
    kind, gpus, steps = block.text("job_type"), block.number("scale_factor"), block.number("total_steps")
    assert kind is not None
    assert gpus is not None
    assert steps is not None
    block.fault(steps < 0, Reason.NEGATIVE_DURATION)
    rate = np.full(len(block), np.nan)
    for i in np.flatnonzero(block.good & (gpus > 0)):
        count = int(gpus[i])
        exact = speeds.get((kind[i], count))
        alone = speeds.get((kind[i], 1))
        if exact is not None and exact > 0:
            rate[i] = exact
        elif alone is not None and alone > 0:
            rate[i] = alone * count
            context.collector.repairs["speed_scaled_from_one_gpu"] += 1
    block.fault(np.isnan(rate) & (gpus > 0), Reason.UNKNOWN_WORKLOAD)
    parts = [_MODEL.match(text or "") for text in kind]
    models = np.array([match["model"] if match else None for match in parts], dtype=object)
    batches = [float(match["batch"]) if match and match["batch"] else np.nan for match in parts]
    return {
        "job_id": numbered_ids(block, context.file.content_name.removesuffix(".trace")),
        "name": kind,
        "gpus": gpus,
        "submit_s": block.number("arrival_time"),
        "duration_s": steps / rate,
        "model": models,
        "batch_size": np.array(batches, dtype=np.float64),
        "workload_source": np.full(len(block), "recorded", dtype=object),
    }


LOADER = GavelLoader()
