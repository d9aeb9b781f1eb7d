"""Reads a delimited text by its contract: the part that every table loader shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.collector import Collector
from lucid_pipelines.traces.contract import Contract, Reason
from lucid_pipelines.traces.files import Progress, TraceFile, open_bytes
from lucid_pipelines.traces.frames import Floats, Objects
from lucid_pipelines.traces.lines import RecordBlock, line_blocks, read_header, records, split_header


@dataclass(slots=True)
class ReadContext:
    """What a loader works on.

    Attributes:
        zone: the zone of times that carry no offset.
        profiles: measured throughputs, for formats whose jobs have no duration of their own.
        notes: facts about the file; loaders add to it.
        metadata: facts that the file's own header states; loaders add to it.
    """

    file: TraceFile
    zone: str = "UTC"
    profiles: Path | None = None
    progress: Progress | None = None
    collector: Collector = field(default_factory=Collector)
    notes: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class Loader(Protocol):
    """Reads one format into the context's collector."""

    @property
    def contract(self) -> Contract: ...

    @property
    def has_calendar(self) -> bool: ...

    def read(self, context: ReadContext) -> None: ...

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        """The cluster that files beside the trace describe."""
        ...


Draft = Callable[[CellBlock, ReadContext], Mapping[str, Any]]
"""Turns a block of cells into arrays by ``TraceJob`` field, marking faults on the block."""


@dataclass(frozen=True, slots=True)
class TableLoader:
    """A loader for files with one row per job."""

    contract: Contract
    draft: Draft
    has_calendar: bool = True
    find_cluster: Callable[[TraceFile], ClusterSpec | None] = lambda _file: None

    def read(self, context: ReadContext) -> None:
        """Read the whole file, block by block.

        Raises:
            InputError: the file is empty, damaged or lacks a required column.
        """
        for block in cell_blocks(context.file, self.contract, context):
            context.collector.take(block, self.draft(block, context))

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        return self.find_cluster(file)


def cell_blocks(
    file: TraceFile,
    contract: Contract,
    context: ReadContext,
    on_comment: Callable[[str], None] | None = None,
) -> Iterator[CellBlock]:
    """The file's rows as blocks of cells; rows that cannot be split go to the context's quarantine.

    Args:
        on_comment: takes lines above the header that begin with ``#``; without it there are none.

    Raises:
        InputError: the file is empty, damaged or lacks a required column, or has a header and no row.
    """
    has_rows = False
    with open_bytes(file, context.progress) as source:
        blocks = line_blocks(source)
        if contract.headerless:
            header_line, header = "", [column.name for column in contract.columns]
        else:
            header_line, blocks = read_header(blocks, file.label)
            while on_comment is not None and header_line.startswith("#"):
                on_comment(header_line)
                header_line, blocks = read_header(blocks, file.label)
            header = split_header(header_line, contract.separator)
        positions = contract.require(header, file.label)
        for block in records(blocks, len(header), contract.separator, header_line):
            context.collector.reject_all(block.rejected)
            has_rows = has_rows or bool(block.rejected)
            if block.rows:
                has_rows = True
                yield block_of(block, contract, positions, context.zone)
    if not has_rows:
        raise InputError(
            f"the trace file has no rows{'' if contract.headerless else ' below its header'}: {file.label}"
        )


def block_of(block: RecordBlock, contract: Contract, positions: Mapping[str, int], zone: str) -> CellBlock:
    """Turn rows into columns."""
    columns = list(zip(*block.rows, strict=True))
    return CellBlock(
        contract=contract,
        numbers=np.array(block.numbers, dtype=np.int64),
        cells={name: columns[i] for name, i in positions.items()},
        raw=block.raws.__getitem__,
        zone=zone,
    )


def read_states(block: CellBlock, name: str, words: Mapping[str, TraceState | Reason]) -> Objects | None:
    """Translate the trace's words for final states; a word outside the contract is a fault.

    Args:
        words: by upper-case word: the state, or the reason why such a row is no job that ran.
    """
    texts = block.text(name)
    if texts is None:
        return None
    found = np.empty(len(block), dtype=object)
    found[:] = [None if text is None else words.get(text.upper(), Reason.UNKNOWN_STATE) for text in texts]
    for reason in {value for value in found if isinstance(value, Reason)}:
        block.fault(np.equal(found, reason), reason)
    return np.array([v if isinstance(v, TraceState) else None for v in found], dtype=object)


def numbered_ids(block: CellBlock, prefix: str) -> Objects:
    """Ids for traces that have none: the prefix and the row's number in the file."""
    out = np.empty(len(block), dtype=object)
    out[:] = [f"{prefix}-{number}" for number in block.numbers]
    return out


def durations(
    block: CellBlock, context: ReadContext, recorded: Floats | None, start: Floats | None, end: Floats | None
) -> Floats:
    """Run times: what the trace records, else end minus start; disagreements of over 1 s are counted."""
    if recorded is None:
        recorded = np.full(len(block), np.nan)
    if start is None or end is None:
        return recorded
    block.fault(end < start, Reason.END_BEFORE_START)
    computed = end - start
    with np.errstate(invalid="ignore"):
        differs = np.abs(recorded - computed) > 1.0
    context.collector.repairs["recorded_duration_differs_from_times"] += int(differs.sum())
    return np.where(np.isnan(recorded), computed, recorded)
