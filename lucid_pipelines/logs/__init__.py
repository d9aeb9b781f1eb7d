"""Reading training logs: bytes to lines to display states, for the tracker and the failure handler."""

from lucid_pipelines.logs.lines import LogLine, normalise, normalise_all, unglue
from lucid_pipelines.logs.prefixes import (
    NO_LABELS,
    Labels,
    Prefix,
    detect_labels,
    rank_from_path,
    rank_inside,
    split_prefix,
)
from lucid_pipelines.logs.reader import (
    Batch,
    Cursor,
    detect_labels_in,
    iter_lines,
    iter_raw_lines,
    iter_raw_lines_backward,
    labels_of,
    read_new,
)
from lucid_pipelines.logs.source import (
    Extent,
    FileSource,
    LogSource,
    compression_of,
    extent_of,
    iter_blocks,
    read_extent,
    refuse_unknown_packing,
)
from lucid_pipelines.logs.splitter import LineSplitter, RawLine, SplitterState
from lucid_pipelines.logs.terminal import count_undecodable, frames, last_frame
from lucid_pipelines.logs.times import LineTime, TimeKind, find_time

__all__ = [
    "NO_LABELS",
    "Batch",
    "Cursor",
    "Extent",
    "FileSource",
    "Labels",
    "LineSplitter",
    "LineTime",
    "LogLine",
    "LogSource",
    "Prefix",
    "RawLine",
    "SplitterState",
    "TimeKind",
    "compression_of",
    "count_undecodable",
    "detect_labels",
    "detect_labels_in",
    "extent_of",
    "find_time",
    "frames",
    "iter_blocks",
    "iter_lines",
    "iter_raw_lines",
    "iter_raw_lines_backward",
    "labels_of",
    "last_frame",
    "normalise",
    "normalise_all",
    "rank_from_path",
    "rank_inside",
    "read_extent",
    "read_new",
    "refuse_unknown_packing",
    "split_prefix",
    "unglue",
]
