"""Huge logs: a few chunks are read, the answer is the same, and a broken order is noticed."""

import time
from pathlib import Path

import pytest

from lucid_pipelines.failures.diagnosis import diagnose_log
from lucid_pipelines.failures.huge import CHUNK_BYTES, Health, health_of
from lucid_pipelines.logs import NO_LABELS
from tests.support_failures.faults_one import FAULTS
from tests.support_failures.reading import progress, raws, tools
from tests.support_failures.worlds import build

ECC = 'Traceback (most recent call last):\n  File "/home/u/t.py", line 3, in main\n    step()\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n'  # noqa: E501
ABORT = (
    "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] NCCL watchdog thread terminated with exception: NCCL error: remote "
    "process exited or there was a network error, NCCL version 2.20.5\n"
)
SMALL = 256 << 10
"""Logs above this size take the fast path in these tests."""


def test_a_sparse_log_of_ten_gigabytes(tmp_path: Path) -> None:
    case = build(next(f for f in FAULTS if f.name == "paddle_ecc"), 1)
    path = tmp_path / "sparse.log"
    newlines = 0
    with path.open("wb") as file:
        for part in range(8):
            file.seek(part * (1 << 30) + part)
            block = progress(part * 5000, 900).encode()
            file.write(block)
            newlines += block.count(b"\n")
        file.seek(10 << 30)
        file.write(b"\n" + case.data)
        newlines += 1
    diagnose_log(path, tools())
    began = time.process_time()
    found = diagnose_log(path, tools())
    spent_s = time.process_time() - began
    assert found.root_text is not None and "uncorrectable ECC" in found.root_text
    assert case.root_line is not None and found.root_line == newlines + case.root_line
    assert found.path == "bisected"
    assert found.bytes_read < found.size // 100
    assert spent_s < 2.0


@pytest.mark.parametrize("place", [0.05, 0.4, 0.97])
def test_the_fast_path_agrees_with_the_whole_reading(tmp_path: Path, place: float) -> None:
    before = int(40_000 * place)
    path = tmp_path / "job.log"
    path.write_text(progress(0, before) + ECC + ABORT * (40_000 - before))
    whole = diagnose_log(path, tools())
    fast = diagnose_log(path, tools(), full_read_bytes=SMALL)
    assert (fast.root_line, fast.root_text) == (whole.root_line, whole.root_text)
    assert fast.path == "bisected" and whole.path == "whole"
    if fast.size > 4 << 20:
        assert fast.bytes_read < fast.size / 2


def test_a_failure_that_was_survived_in_the_middle_does_not_catch_the_bisection(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    survived = ABORT * 2000
    path.write_text(progress(0, 20_000) + survived + progress(20_000, 30_000) + ECC + ABORT * 50)
    found = diagnose_log(path, tools(), full_read_bytes=SMALL)
    assert found.root_text is not None and "uncorrectable ECC" in found.root_text


def test_a_region_that_explains_nothing_takes_the_slower_path(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(progress(0, 30_000))
    found = diagnose_log(path, tools(), full_read_bytes=SMALL)
    assert found.path == "scanned"
    assert found.root_line is None


def test_times_out_of_order_take_the_slower_path(tmp_path: Path) -> None:
    late = "2024-05-02 05:14:09 ERROR kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus\n"
    early = "2024-05-02 05:06:01 ERROR OSError: [Errno 116] Stale file handle: '/data/a'\n"
    path = tmp_path / "job.log"
    path.write_text(progress(0, 30_000) + late + early)
    found = diagnose_log(path, tools(), full_read_bytes=SMALL)
    assert found.path == "scanned"
    assert found.root_text is not None and "Stale file handle" in found.root_text


def test_the_end_is_seen_even_when_the_failure_region_is_long(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(progress(0, 20_000) + "Training completed.\n" + "leaked semaphore objects warning\n" * 40_000)
    found = diagnose_log(path, tools(), full_read_bytes=SMALL)
    assert found.classified.category is None


def test_the_health_of_chunks() -> None:
    judge = tools().judge
    assert health_of(raws(progress(1, 50)), NO_LABELS, judge) is Health.HEALTHY
    assert health_of(raws(progress(1, 50) + ABORT * 3), NO_LABELS, judge) is Health.ILL
    assert health_of(raws(ABORT * 3 + progress(1, 50)), NO_LABELS, judge) is Health.HEALTHY
    assert health_of(raws("hello\nworld\n"), NO_LABELS, judge) is Health.MUTE


def test_a_huge_log_of_zero_bytes_and_one_line_of_megabytes(tmp_path: Path) -> None:
    zeros = tmp_path / "zeros.log"
    with zeros.open("wb") as file:
        file.truncate(1 << 30)
    assert diagnose_log(zeros, tools()).root_line is None
    one = tmp_path / "one.log"
    one.write_bytes(b"x" * (CHUNK_BYTES * 40) + b"\n" + ECC.encode())
    found = diagnose_log(one, tools(), full_read_bytes=SMALL)
    assert found.root_text is not None and "uncorrectable ECC" in found.root_text
