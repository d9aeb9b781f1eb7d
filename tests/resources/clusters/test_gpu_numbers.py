"""A GPU keeps the number under which it was first seen, whatever the driver counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucid_pipelines.resources.clusters.gpu_numbers import GpuNumbers
from lucid_pipelines.resources.clusters.gpu_reading import GpuReading


def shown(*uuids: str | None) -> list[GpuReading]:
    return [GpuReading(index, uuid, "H200", 143_771.0) for index, uuid in enumerate(uuids)]


def settled(numbers: GpuNumbers, *uuids: str | None) -> dict[int, str | None]:
    return {reading.index: reading.uuid for reading in numbers.settle(shown(*uuids))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gpus.json"


def test_numbers_outlive_a_process_and_a_driver(path: Path) -> None:
    assert settled(GpuNumbers(path), "a", "b", "c") == {0: "a", 1: "b", 2: "c"}
    assert settled(GpuNumbers(path), "c", "a", "b") == {0: "a", 1: "b", 2: "c"}
    assert settled(GpuNumbers(path), "b", "c") == {1: "b", 2: "c"}
    assert [(gpu.index, gpu.uuid, gpu.memory_mib) for gpu in GpuNumbers(path).gpus()] == [
        (0, "a", 143_771.0),
        (1, "b", 143_771.0),
        (2, "c", 143_771.0),
    ]


def test_one_that_does_not_tell_its_name_is_one_that_is_missing(path: Path) -> None:
    numbers = GpuNumbers(path)
    numbers.settle(shown("a", "b"))
    assert settled(numbers, "a", None) == {0: "a", 1: None}
    assert settled(numbers, "b", None) == {0: None, 1: "b"}
    assert settled(numbers, "a", "b", None) == {0: "a", 1: "b", 2: None}


def test_a_new_board_takes_the_number_of_the_one_that_is_gone(path: Path) -> None:
    numbers = GpuNumbers(path)
    numbers.settle(shown("a", "b", "c"))
    assert settled(numbers, "a", "new", "c") == {0: "a", 1: "new", 2: "c"}
    assert settled(numbers, "newer", "a", "c") == {0: "a", 1: "newer", 2: "c"}
    assert settled(numbers, "x", "a", "newer", "c") == {0: "a", 1: "newer", 2: "c", 3: "x"}


@pytest.mark.parametrize("text", ["", "[", "{}", "null", "[1]", '[{"uuid": "a"}]', '[{"index": "x", "uuid": "a"}]'])
def test_a_register_that_cannot_be_read_is_begun_anew(path: Path, text: str) -> None:
    path.write_text(text)
    assert settled(GpuNumbers(path), "a", "b") == {0: "a", 1: "b"}
    assert len(json.loads(path.read_text())) == 2


def test_a_disk_that_refuses_costs_the_memory_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    numbers = GpuNumbers(tmp_path / "file" / "gpus.json")
    assert settled(numbers, "a", "b") == {0: "a", 1: "b"}
    assert settled(numbers, "b", "a") == {0: "a", 1: "b"}
