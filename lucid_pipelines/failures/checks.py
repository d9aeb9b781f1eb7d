"""Parsers of what diagnosis tools print: nccl-tests, dcgmi diag, dcgm-exporter, nvidia-smi, ibstat, df, NHC.

Formats: nccl-tests all_reduce_perf, DCGM 3 and 4 ``diag -j``, Prometheus text, ``nvidia-smi --query-gpu … csv``.
A text that is not such an output raises ``InputError``: a check whose output cannot be read has not passed.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from lucid_pipelines.domain.errors import InputError

_BLANK_VALUES = frozenset({9223372036854775794, 9223372036854775792, 9223372036854775793, 9223372036854775795})
_NCCL_ROW = re.compile(
    r"^\s*(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>\w+)\s+(?P<op>\w+)\s+(?P<root>-?\d+)\s+"
    r"(?P<t1>[\d.]+)\s+(?P<a1>[\d.]+)\s+(?P<b1>[\d.]+)\s+(?P<w1>\S+)\s+(?P<t2>[\d.]+)\s+(?P<a2>[\d.]+)\s+(?P<b2>[\d.]+)\s+(?P<w2>\S+)\s*$"
)
_METRIC = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class CheckStatus(StrEnum):
    """Outcome of one test, in DCGM's words."""

    PASS = "pass"  # noqa: S105 - a test result
    SKIP = "skip"
    WARN = "warn"
    FAIL = "fail"
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True)
class NcclReport:
    """Result of one nccl-tests run.

    Attributes:
        average_bus_gbps: average bus bandwidth over all sizes, GB/s.
        peak_bus_gbps: the best row, GB/s.
        wrong_values: elements that came out wrong; ``None`` when checking was off.
        is_ok: nothing was wrong and the run came to its end (and its own threshold, if any, was met).
    """

    average_bus_gbps: float | None
    peak_bus_gbps: float | None
    wrong_values: int | None
    row_count: int
    is_ok: bool


@dataclass(frozen=True, slots=True)
class DcgmTest:
    """One test of a ``dcgmi diag`` run.

    Attributes:
        failed_gpus: GPU indices with FAIL.
        warnings: texts of warnings, as DCGM wrote them.
    """

    name: str
    status: CheckStatus
    failed_gpus: tuple[int, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DcgmReport:
    """Result of ``dcgmi diag -j``.

    Attributes:
        runtime_error: DCGM could not run: then nothing is known of the GPUs.
    """

    tests: tuple[DcgmTest, ...]
    version: str | None
    runtime_error: str | None

    @property
    def failed_gpus(self) -> tuple[int, ...]:
        return tuple(sorted({gpu for test in self.tests for gpu in test.failed_gpus}))

    @property
    def passed(self) -> bool | None:
        """``None`` when the diagnostics could not be run."""
        if self.runtime_error is not None or not self.tests:
            return None
        return all(test.status is not CheckStatus.FAIL for test in self.tests)


@dataclass(frozen=True, slots=True)
class MetricReading:
    """One sample of a Prometheus text page, with its labels."""

    name: str
    labels: dict[str, str]
    value: float

    @property
    def gpu_index(self) -> int | None:
        text = self.labels.get("gpu", "")
        return int(text) if text.isdigit() else None


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU of ``nvidia-smi --query-gpu``; a value that the tool does not give is ``None``."""

    index: int
    values: dict[str, str | None]

    def number(self, name: str) -> float | None:
        """A numeric column without its unit."""
        text = self.values.get(name)
        match = re.match(r"-?\d+(?:\.\d+)?", text) if text else None
        return float(match[0]) if match else None


@dataclass(frozen=True, slots=True)
class PortState:
    """One port of ``ibstat``."""

    device: str
    port: int
    state: str
    physical_state: str
    rate_gbps: float | None

    @property
    def is_up(self) -> bool:
        return self.state == "Active" and self.physical_state == "LinkUp"


def parse_nccl_tests(text: str, *, min_bus_gbps: float | None = None) -> NcclReport:
    """Read the table (or the JSON file) of an nccl-tests program.

    Args:
        min_bus_gbps: fail below this average bus bandwidth, GB/s.

    Raises:
        InputError: it is no such output.
    """
    if text.lstrip().startswith("{"):
        return _nccl_json(text, min_bus_gbps)
    rows = [match for line in text.splitlines() if (match := _NCCL_ROW.match(line))]
    average = re.search(r"# Avg bus bandwidth\s*:\s*([\d.]+)(?:\s+(OK|FAILED))?", text)
    bounds = re.search(r"# Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)", text)
    if not rows and average is None and bounds is None and "nccl-tests" not in text and "# nThread" not in text:
        raise InputError(f"this is not the output of an nccl-tests program: {text[:120]!r}")
    wrong = [_wrong(match[group]) for match in rows for group in ("w1", "w2")]
    known = [count for count in wrong if count is not None]
    wrong_values = sum(known) if known else (int(bounds[1]) if bounds else None)
    mean = float(average[1]) if average else None
    peak = max((max(float(m["b1"]), float(m["b2"])) for m in rows), default=None)
    finished = average is not None and "Test NCCL failure" not in text and "Test failure" not in text
    ok = finished and not wrong_values and "FAILED" not in text and _reaches(mean, min_bus_gbps)
    return NcclReport(mean, peak, wrong_values, len(rows), ok)


def parse_dcgmi_diag(text: str) -> DcgmReport:
    """Read ``dcgmi diag -r N -j`` of DCGM 3 or 4.

    Raises:
        InputError: it is no such JSON.
    """
    start = text.find("{")
    try:
        document = cast("dict[str, Any]", json.loads(text[start:] if start >= 0 else text))
        root = document.get("DCGM Diagnostic") or document.get("DCGM GPU Diagnostic")
        if root is None:
            raise InputError(f"this JSON is not a dcgmi diagnosis: {sorted(document)[:5]}")
        tests = tuple(
            _dcgm_test(test) for category in root.get("test_categories", []) for test in category.get("tests", [])
        )
        version = (document.get("metadata") or {}).get("version") or root.get("version")
        error = root.get("runtime_error") or document.get("runtime_error")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"this is not the JSON of dcgmi diag: {problem}") from problem
    return DcgmReport(tests, version, str(error) if error else None)


def parse_metrics(text: str) -> list[MetricReading]:
    """Read a page of dcgm-exporter (Prometheus text); blank and non-finite values are left out (R-25)."""
    found: list[MetricReading] = []
    for line in text.splitlines():
        match = _METRIC.match(line.strip())
        if match is None or line.startswith("#"):
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        is_blank = value >= 2**63 - 4096 or (value.is_integer() and int(value) in _BLANK_VALUES)
        if value != value or value in (float("inf"), float("-inf")) or is_blank:
            continue
        found.append(MetricReading(match["name"], dict(_LABEL.findall(match["labels"] or "")), value))
    return found


def parse_nvidia_smi_csv(text: str) -> list[GpuRow]:
    """Read ``nvidia-smi --query-gpu=index,… --format=csv``.

    Raises:
        InputError: there is no header with an ``index`` column.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if re.match(r"\s*index\b", line)), None)
    if start is None:
        raise InputError(f"this is not the CSV of nvidia-smi: {text[:120]!r}")
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:])), skipinitialspace=True))
    names = [re.sub(r" \[.*\]$", "", name).strip() for name in rows[0]]
    found: list[GpuRow] = []
    for row in rows[1:]:
        values = {name: _known(cell) for name, cell in zip(names, row, strict=False)}
        index = values.get("index")
        if index is not None and index.isdigit():
            found.append(GpuRow(int(index), values))
    return found


def parse_ibstat(text: str) -> list[PortState]:
    """Read ``ibstat``.

    Raises:
        InputError: it names no adapter.
    """
    ports: list[PortState] = []
    device = ""
    fields: dict[str, str] = {}
    port = 0

    def flush() -> None:
        if device and port:
            rate = re.match(r"\d+(?:\.\d+)?", fields.get("Rate", ""))
            ports.append(
                PortState(
                    device,
                    port,
                    fields.get("State", "?"),
                    fields.get("Physical state", "?"),
                    float(rate[0]) if rate else None,
                )
            )

    for line in text.splitlines():
        if match := re.match(r"CA '([^']+)'", line.strip()):
            flush()
            device, port, fields = match[1], 0, {}
        elif match := re.match(r"Port (\d+):", line.strip()):
            flush()
            port, fields = int(match[1]), {}
        elif match := re.match(r"([\w ]+): (.+)", line.strip()):
            fields[match[1]] = match[2].strip()
    flush()
    if not device:
        raise InputError(f"this is not the output of ibstat: {text[:120]!r}")
    return ports


def parse_df(text: str) -> dict[str, float]:
    """Share in use (0 to 1) of each mount point in ``df`` output.

    Raises:
        InputError: no line ends in a percentage and a mount point.
    """
    found = {
        match[2]: float(match[1]) / 100
        for line in text.splitlines()
        if (match := re.search(r"(\d+)%\s+(/\S*)\s*$", line))
    }
    if not found:
        raise InputError(f"this is not the output of df: {text[:120]!r}")
    return found


def is_foreign_drain_reason(reason: str | None, own_leader: str) -> bool:
    """Whether a node's drain reason was set by somebody else, and so must be left alone (NHC's rule, R-17).

    Args:
        own_leader: how our own reasons begin, e.g. ``lucid:``.
    """
    return bool(reason) and reason not in ("none", "(null)") and not str(reason).startswith(own_leader)


def _nccl_json(text: str, min_bus_gbps: float | None) -> NcclReport:
    try:
        document = cast("dict[str, Any]", json.loads(text))
        bounds = document.get("out_of_bounds") or {}
        average = document.get("average_bus_bandwidth") or {}
        mean = float(average["bandwidth"]) if "bandwidth" in average else None
        wrong = int(bounds["count"]) if "count" in bounds else None
        rows = document.get("results") or []
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise InputError(f"this is not the JSON of nccl-tests: {problem}") from problem
    if "results" not in document:
        raise InputError(f"this JSON is not of nccl-tests: {sorted(document)[:5]}")
    ok = not wrong and bounds.get("okay", True) is not False and average.get("okay", True) is not False
    return NcclReport(mean, None, wrong, len(rows), bool(ok) and mean is not None and _reaches(mean, min_bus_gbps))


def _reaches(mean: float | None, least: float | None) -> bool:
    return least is None or (mean is not None and mean >= least)


def _wrong(text: str) -> int | None:
    try:
        return int(float(text))
    except ValueError:
        return None


def _dcgm_test(test: dict[str, Any]) -> DcgmTest:
    failed: set[int] = set()
    warnings: list[str] = []
    statuses: list[CheckStatus] = []
    for result in test.get("results", []):
        status = _status(result.get("status"))
        statuses.append(status)
        if status is CheckStatus.FAIL:
            failed.update(_gpus_of(result))
        warnings += [_warning(w) for w in _as_list(result.get("warnings") or result.get("warning"))]
    summary = (test.get("test_summary") or {}).get("status")
    overall = _status(summary) if summary is not None else _worst(statuses)
    return DcgmTest(str(test.get("name", "?")), overall, tuple(sorted(failed)), tuple(warnings))


def _gpus_of(result: dict[str, Any]) -> list[int]:
    if "gpu_ids" in result:
        return [int(x) for x in re.findall(r"\d+", str(result["gpu_ids"]))]
    if str(result.get("entity_group", "GPU")).upper().startswith("GPU") and result.get("entity_id") is not None:
        return [int(result["entity_id"])]
    return []


def _status(text: object) -> CheckStatus:
    match str(text).strip().upper().replace(" ", "_"):
        case "PASS" | "PASSED":
            return CheckStatus.PASS
        case "SKIP" | "SKIPPED":
            return CheckStatus.SKIP
        case "WARN" | "WARNING":
            return CheckStatus.WARN
        case "FAIL" | "FAILED":
            return CheckStatus.FAIL
        case _:
            return CheckStatus.NOT_RUN


def _worst(statuses: list[CheckStatus]) -> CheckStatus:
    for status in (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.PASS, CheckStatus.SKIP):
        if status in statuses:
            return status
    return CheckStatus.NOT_RUN


def _as_list(value: object) -> list[object]:
    if value is None:
        return []
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _warning(value: object) -> str:
    if isinstance(value, dict):
        return str(cast("dict[str, object]", value).get("warning", value))
    return str(value)


def _known(cell: str) -> str | None:
    text = cell.strip()
    return None if text in ("", "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "Not Active [N/A]") else text
