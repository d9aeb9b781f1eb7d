"""The number of each GPU of this machine, kept by UUID: what our books call GPU 0 stays the same piece of hardware.

A driver numbers what it finds. After a restart two GPUs may have changed places, and when one is lost those behind it
move up, for every process that begins to look then. A job that runs on and a job that is placed must not meet because
of that, so the number under which a GPU was first seen is written down. What is written down is also known while the
driver does not answer.

A GPU that is new takes the number of one that is no longer listed, when there is such a one: a board was changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.cluster import Gpu
from lucid_pipelines.resources.clusters.gpu_reading import GpuReading
from lucid_pipelines.whole_files import write_whole

_log = logging.getLogger(__name__)


class GpuNumbers:
    """The register in one file; several processes may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gpus: dict[str, Gpu] = {}
        self._read()

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU that is known here, in the order of the numbers."""
        return tuple(sorted(self._gpus.values(), key=lambda gpu: gpu.index))

    def settle(self, found: Sequence[GpuReading]) -> list[GpuReading]:
        """The readings with our numbers in place of the driver's; GPUs that are new are written down."""
        present = {reading.uuid for reading in found if reading.uuid is not None}
        if not present <= self._gpus.keys():
            self._read()  # another process may have met it first
        for reading in found:
            if reading.uuid is not None:
                self._meet(reading.uuid, reading, present)
        missing = [gpu.index for gpu in self.gpus() if gpu.uuid not in present]
        settled: list[GpuReading] = []
        for reading in found:
            if reading.uuid is not None:
                settled.append(replace(reading, index=self._gpus[reading.uuid].index))
                continue
            # It does not even tell its name: one of those that are missing, as far as anybody can say.
            if missing:
                number = reading.index if reading.index in missing else missing[0]
                missing.remove(number)
                settled.append(replace(reading, index=number))
            elif reading.index not in {gpu.index for gpu in self._gpus.values()}:
                settled.append(reading)
        return sorted(settled, key=lambda reading: reading.index)

    def _meet(self, uuid: str, reading: GpuReading, present: Collection[str]) -> None:
        known = self._gpus.get(uuid)
        if known is None:
            gone = {gpu.index: name for name, gpu in self._gpus.items() if name not in present}
            taken = {gpu.index for gpu in self._gpus.values()} - gone.keys()
            wishes = (reading.index, *sorted(gone), *range(len(taken) + 1))
            number = next((n for n in wishes if n not in taken), next(n for n in count() if n not in taken))
            if number in gone:
                _log.warning("GPU %d was %s and is %s now", number, gone[number], uuid)
                del self._gpus[gone[number]]
        else:
            number = known.index
        gpu = Gpu(
            number,
            uuid,
            reading.gpu_type or (known.gpu_type if known else None),
            reading.memory_total_mib or (known.memory_mib if known else None),
        )
        if gpu != known:
            self._gpus[uuid] = gpu
            self._write()

    def _read(self) -> None:
        try:
            rows: Any = json.loads(self._path.read_text(encoding="utf-8"))
            found = {
                str(row["uuid"]): Gpu(int(row["index"]), str(row["uuid"]), row["type"], row["mib"]) for row in rows
            }
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            _log.warning("the numbers of the GPUs cannot be read, they are counted anew: %s: %s", self._path, error)
            return
        if len({gpu.index for gpu in found.values()}) == len(found):
            self._gpus = found

    def _write(self) -> None:
        rows = [
            {"index": gpu.index, "uuid": gpu.uuid, "type": gpu.gpu_type, "mib": gpu.memory_mib} for gpu in self.gpus()
        ]
        try:
            write_whole(self._path, json.dumps(rows, indent=1))
        except OSError as error:
            _log.warning("the numbers of the GPUs cannot be kept: %s: %s", self._path, error)
