"""One call for every trace file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pandas as pd

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.detect import find_trace, format_of
from lucid_pipelines.traces.files import Progress
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.profiles import ProfileTable, read_profiles
from lucid_pipelines.traces.registry import loader_of
from lucid_pipelines.traces.select import Moment, moment_s, scale_load, select_vcs, select_window
from lucid_pipelines.traces.table import Loader, ReadContext
from lucid_pipelines.traces.workloads import assign_workloads


def load(
    path: str | Path,
    *,
    format: str | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    vcs: Collection[str] | None = None,
    scale: float | None = None,
    workloads: ProfileTable | str | Path | None = None,
    seed: int = 0,
    timezone: str = "UTC",
    profiles: str | Path | None = None,
    progress: Progress | None = None,
) -> LoadedTrace:
    """Load a trace of any supported format.

    Args:
        path: a file (plain, ``.gz``, ``.tar.gz``, or ``archive.tar.gz::member``), or a folder with one trace.
        format: overrides the detection.
        start, end: keep jobs submitted in ``[start, end)``.
        vcs: keep jobs of these virtual clusters.
        scale: change the offered load, see ``select.scale_load``.
        workloads: a profile table that assigns a workload to every job without one, see ``workloads``; its
            mapping does not depend on the selection.
        seed: of the scaling and of the mapping.
        timezone: zone of times that carry no offset. The default keeps the cluster's own clock as if it were
            UTC: differences are right and so are hours of the day; only the absolute moment is shifted.
        profiles: measured throughputs for formats without durations (Sia, Gavel).
        progress: called with the share of the file that has been read.

    Raises:
        NotFoundError: there is no such file.
        InputError: the file or an argument cannot be used; the message says what to do.
    """
    zone = _checked_zone(timezone)
    file = find_trace(path)
    loader = loader_of(format) if format is not None else loader_of(format_of(file))
    context = ReadContext(file, zone, None if profiles is None else Path(profiles), progress)
    loader.read(context)
    frame = context.collector.frame()
    has_calendar = bool(context.metadata.get("has_calendar", loader.has_calendar))
    if workloads is not None:
        table = workloads if isinstance(workloads, ProfileTable) else read_profiles(workloads)
        frame = assign_workloads(frame, table, seed)
    left_out: Counter[str] = Counter()
    starts_s: float | None = None
    before: pd.DataFrame | None = None
    if start is not None or end is not None:
        bounds = [None if b is None else moment_s(b, zone, has_calendar=has_calendar) for b in (start, end)]
        if bounds[0] is not None and bounds[1] is not None and bounds[0] >= bounds[1]:
            raise InputError(f"the window must end after it starts; got {start} to {end}")
        starts_s = bounds[0]
        before = None if starts_s is None else select_window(frame, None, starts_s, Counter())
        frame = select_window(frame, bounds[0], bounds[1], left_out)
    if vcs is not None:
        frame = select_vcs(frame, vcs, left_out)
        before = None if before is None else select_vcs(before, vcs, Counter())
    if scale is not None:
        frame = scale_load(frame, scale, seed, left_out)
    cluster = _cluster(loader, context)
    return LoadedTrace(
        format=loader.contract.format,
        source=file.label,
        frame=frame,
        quarantine=context.collector.quarantine(),
        rows_read=context.collector.rows_read,
        clock=_clock(loader, context, zone),
        has_calendar=has_calendar,
        merged=_counted(context.collector.merged),
        deselected=_counted(left_out),
        repairs=_counted(context.collector.repairs),
        notes=(*context.notes, *_cluster_notes(cluster, frame)),
        cluster=cluster,
        metadata=context.metadata,
        starts_s=starts_s,
        before=before,
    )


def _checked_zone(name: str) -> str:
    if name != "UTC" and name not in available_timezones():
        hint = did_you_mean(name, available_timezones())
        raise InputError(f"a time zone is named as in the IANA list, e.g. Asia/Shanghai{hint}; not {name!r}")
    return ZoneInfo(name).key


def _cluster(loader: Loader, context: ReadContext) -> ClusterSpec | None:
    recorded = context.metadata.get("cluster")
    return ClusterSpec.from_mapping(recorded) if recorded is not None else loader.cluster(context.file)


def _clock(loader: Loader, context: ReadContext, zone: str) -> str:
    stated = context.metadata.get("clock")
    if stated is not None:
        return str(stated)
    return f"{loader.contract.clock}; times without an offset read as {zone}"


def _cluster_notes(cluster: ClusterSpec | None, frame: pd.DataFrame) -> tuple[str, ...]:
    if cluster is None:
        return ()
    missing = [str(vc) for vc in frame["vc"].cat.categories if str(vc) not in cluster.virtual_clusters]
    if not missing:
        return ()
    return (f"the cluster that the files describe lacks the virtual clusters {', '.join(missing[:30])}",)


def _counted(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
