"""GPUs as dcgm-exporter tells them: a second source, for what NVML does not answer.

Text in the exposition format of Prometheus; GPUs are matched by UUID, because numbers may change with a driver
restart. A value that is out of range, or comes twice with different numbers, is unknown (R-25).
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPException
from urllib.error import URLError
from urllib.request import urlopen

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.resources.clusters import wrapper

UTIL, MEMORY_UTIL = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL"
MEMORY_USED, XID = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS"
_WANTED = frozenset((UTIL, MEMORY_UTIL, MEMORY_USED, XID))
_LINE = re.compile(r'([A-Za-z_:][\w:]*)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*')
_LABEL = re.compile(r'\b([A-Za-z_]\w*+)="((?:[^"\\]|\\.)*+)"')
"""It begins at the beginning of a word and gives nothing back: else a label of a megabyte would take days."""
_MOST_BYTES = 8 * 1024 * 1024
_MOST_MIB, _MOST_XID = 16.0 * 1024 * 1024, 9999.0
"""No GPU has so much memory; no error of a driver has such a number."""


@dataclass(frozen=True, slots=True)
class DcgmReading:
    """What the exporter says of one GPU; unknown is ``None``.

    Attributes:
        memory_used_mib: frame buffer in use.
    """

    uuid: str
    gpu_util_pct: float | None
    memory_util_pct: float | None
    memory_used_mib: float | None
    xid: int | None


def parse_dcgm(text: str) -> dict[str, DcgmReading]:
    """Read the exporter's page. Lines that are none of ours, or broken, are passed over; so is a last one without an
    end, whose number may have been cut."""
    found: dict[str, dict[str, float | None]] = {}
    for line in text[: text.rfind("\n") + 1].splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[1] not in _WANTED:
            continue
        labels = dict(_LABEL.findall(match[2]))
        uuid = labels.get("UUID") or labels.get("uuid")
        # Values of a part of a GPU (MIG) say nothing about the whole.
        if not uuid or labels.get("GPU_I_ID"):
            continue
        value = _number(match[3])
        values = found.setdefault(uuid, {})
        values[match[1]] = value if values.get(match[1], value) == value else None
    return {
        uuid: DcgmReading(
            uuid,
            wrapper.within(values.get(UTIL), 100.0),
            wrapper.within(values.get(MEMORY_UTIL), 100.0),
            wrapper.within(values.get(MEMORY_USED), _MOST_MIB),
            int(xid) if (xid := wrapper.within(values.get(XID), _MOST_XID)) else None,
        )
        for uuid, values in found.items()
    }


class DcgmSource:
    """Asks one exporter. ``samples`` fills in what a first source left unknown."""

    def __init__(
        self,
        url: str,
        timeout_s: float = 2.0,
        fetch: Callable[[str, float], str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises ``InputError`` for an address that is not http or https."""
        if not url.startswith(("http://", "https://")):
            raise InputError(f"dcgm-exporter is asked over http or https; got {url!r}")
        self._url, self._timeout_s, self._now = url, timeout_s, now
        self._fetch = fetch or _fetch
        self._busy = threading.Lock()

    def readings(self) -> dict[str, DcgmReading]:
        """By UUID. Raises ``ExternalError`` when the exporter has not answered in full within the time limit."""
        return parse_dcgm(self._in_time())

    def _in_time(self) -> str:
        """Ask in a thread that may be given up: a socket's time-out begins anew with every byte that drips in."""
        late = ExternalError(f"dcgm-exporter did not answer within {self._timeout_s:g} s: {self._url}")
        if not self._busy.acquire(blocking=False):
            raise late  # the one before is still at it
        outcome: list[str | ExternalError] = []

        def run() -> None:
            try:
                outcome.append(self._fetch(self._url, self._timeout_s))
            except ExternalError as error:
                outcome.append(error)
            finally:
                self._busy.release()

        thread = threading.Thread(target=run, name="dcgm", daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        if not outcome:
            raise late
        if isinstance(outcome[0], ExternalError):
            raise outcome[0]
        return outcome[0]

    def complete(self, samples: Sequence[GpuSample]) -> tuple[GpuSample, ...]:
        """The samples, with unknown values taken from the exporter where it knows them; the source says so.

        Raises:
            ExternalError: the exporter does not answer.
        """
        if not any(_lacks(sample) for sample in samples):
            return tuple(samples)
        readings = self.readings()
        return tuple(_completed(sample, readings.get(sample.uuid or "")) for sample in samples)


def _lacks(sample: GpuSample) -> bool:
    return sample.uuid is not None and None in (sample.gpu_util_pct, sample.memory_util_pct, sample.memory_used_mib)


def _completed(sample: GpuSample, reading: DcgmReading | None) -> GpuSample:
    if reading is None or not _lacks(sample):
        return sample
    values = {
        "gpu_util_pct": _first(sample.gpu_util_pct, reading.gpu_util_pct),
        "memory_util_pct": _first(sample.memory_util_pct, reading.memory_util_pct),
        "memory_used_mib": _first(sample.memory_used_mib, reading.memory_used_mib),
    }
    xids = sample.xid_errors or ((reading.xid,) if reading.xid else ())
    return replace(sample, **values, xid_errors=xids, source=f"{sample.source}+dcgm")


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _fetch(url: str, timeout_s: float) -> str:
    try:
        with urlopen(url, timeout=timeout_s) as answer:
            text = _text(iter(lambda: answer.read(65_536), b""))
            if getattr(answer, "length", None):
                raise ValueError("the answer was cut off")
            return text
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise ExternalError(f"dcgm-exporter does not answer: {url}: {error}") from error


def _text(chunks: Iterable[bytes]) -> str:
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > _MOST_BYTES:
            raise ValueError("the answer is too long for an exporter's page")
    return found.decode("utf-8", "replace")
