"""Logs that no well-behaved program writes: an answer or a reason in bounded time, never an exception."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.control.following import progress_json
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.logs import FileSource
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.follow import follow
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import track_file
from tests.tracker.test_follow import Bytes
from tests.tracker.test_uses import NOW

HUGE = b"9" * 400
LINES = {
    "a step beyond all bounds": b"step " + HUGE + b" loss 2.3 lr 0.1",
    "a total beyond all bounds": b"step %d/" + HUGE + b" loss 2.3 lr 0.1 " + b"9" * 10_000 + b" s/step",
    "an epoch beyond all bounds": b"epoch " + HUGE + b" step %d/1000 loss 2.3 " + HUGE + b" samples/sec",
    "a scaled total": b"step %dT/" + b"9" * 30 + b"T loss 2.3 lr 0.1",
    "not a number": b"step %d/1000 loss nan 0.5 s/step",
    "infinite": b"step %d/1000 loss -inf lr inf inf s/step inf tok/s",
    "beyond a float": b"step %d/1000 loss 1e999 lr 1e-999 1e308 s/step",
    "no such date": b"2025-13-45 25:61:61 step %d/1000 loss 2.3",
    "NUL between": b"\0step\0 %d/1000\0 loss 2.3\0",
    "cursor control": b"\x1b[2K\x1b[1A\x1b[0Gstep %d/1000 loss 2.3\x1b[999999999C\x1b[99999999999999A",
    "a cursor far away": b"\x1b[" + b"9" * 5000 + b"Cstep %d/1000 loss 2.3",
}


def read(data: bytes) -> Progress:
    look = follow(Bytes(data), parser=RecordParser())
    json.dumps(look.progress.to_json("x"), allow_nan=False)
    json.dumps(progress_json(look.progress, NOW, steps=5.0, run_s=10.0), allow_nan=False)
    assert all(s.loss is None or abs(s.loss) < float("inf") for s in look.new_samples)
    return look.progress


@pytest.mark.parametrize("name", LINES)
def test_numbers_out_of_bounds_break_nothing(name: str) -> None:
    line = LINES[name]
    got = read(b"\n".join(line.replace(b"%d", b"%d" % i) for i in range(1, 90)) + b"\n")
    if b"step %d/1000" in line or b"%d/1000" in line:
        assert got.step == 89, got
    assert got.step is None or got.step < 10**15
    assert got.total_steps is None or got.total_steps < 10**15


def test_a_loss_that_is_no_number_is_missing_and_said_to_be() -> None:
    got = read(
        LINES["not a number"].replace(b"%d", b"7") * 1
        + b"\n"
        + b"".join(b"step %d/1000 loss nan 0.5 s/step\n" % i for i in range(8, 90))
    )
    assert got.loss is None
    assert "nan" in (got.fallback_reason or "")


@pytest.mark.parametrize(
    "piece",
    [b"1e5", b"PT1H", b"1k/", b"a=1 ", b"1:2:", b"1/2/", b"[([{", b".", b"-", b"a", b"'k': '", b"a_b.c_d.", b"in 3s "],
)
def test_long_lines_of_one_piece_take_no_time(piece: bytes) -> None:
    line = piece * (8000 // len(piece)) + b"1\n"
    begin = time.process_time()
    read(line * 100)
    assert time.process_time() - begin < 1.5


def test_noise_that_is_no_text_is_passed_over_quickly() -> None:
    rng = random.Random(3)
    begin = time.process_time()
    assert read(rng.randbytes(3_000_000)).is_missing
    assert time.process_time() - begin < 3.0
    log = b"".join(b"step %d/1000 loss 2.3 0.5 s/step\n" % i for i in range(200))
    assert read(log + rng.randbytes(20_000) + b"\n" + log).step == 199


def test_text_of_which_no_line_recurs_takes_bounded_time() -> None:
    rng = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = [
        " ".join("".join(rng.choices(letters, k=6)) for _ in range(8)) + f" loss {rng.random()} step"
        for _ in range(40_000)
    ]
    begin = time.process_time()
    assert read("\n".join(lines).encode()).step is None
    assert time.process_time() - begin < 6.0


def test_one_line_of_200_mb_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    with log.open("wb") as file:
        os.truncate(log, 200 << 20)
        file.seek(200 << 20)
        states = (b"\r%d%%|#  | %d/1000 [00:10<01:00, 2.00it/s, loss=2.3%d]" % (i // 10, i, i % 10) for i in range(700))
        file.write(b"".join(states))
    begin = time.process_time()
    got = track_file(log, parser=RecordParser())
    assert (got.step, got.total_steps, got.step_time_s) == (699, 1000, 0.5)
    assert time.process_time() - begin < 2.0


def test_the_log_may_shrink_and_be_replaced_between_looks(tmp_path: Path) -> None:
    log = tmp_path / "a.log"

    def lines(first: int, last: int, begin: bytes = b"") -> bytes:
        return begin + b"".join(b"step %d/1000 loss 2.3 0.5 s/step\n" % i for i in range(first, last))

    log.write_bytes(lines(1, 400))
    state = follow(FileSource(log)).state
    os.truncate(log, 0)  # copytruncate
    emptied = follow(FileSource(log), state)
    assert emptied.restarted
    assert emptied.progress.fallback_reason == "the log is empty"
    log.write_bytes(lines(400, 420))
    again = follow(FileSource(log), emptied.state)
    assert again.progress.step == 419
    assert [s.step for s in again.new_samples] == list(range(400, 420))
    other = tmp_path / "b.log"
    other.write_bytes(lines(420, 500, b"rotated\n"))
    other.rename(log)  # another inode
    moved = follow(FileSource(log), again.state)
    assert moved.restarted
    assert moved.progress.step == 499


def test_steps_that_go_back_for_good_are_those_of_a_resumed_run() -> None:
    first = b"".join(b"step %d/1000 loss 2.3 0.5 s/step\n" % i for i in range(1, 600))
    resumed = b"".join(b"step %d/1000 loss 2.5 0.5 s/step\n" % i for i in range(500, 520))
    assert read(first + b"resuming from step 500\n" + resumed).step == 519
    falling = b"".join(b"step %d/1000 loss 2.3 0.5 s/step\n" % i for i in range(900, 600, -1))
    assert read(falling).step is None


def test_a_clock_that_jumps_back_does_not_decide_the_pace() -> None:
    lines = []
    for i in range(1, 200):
        second = i * 2 - (3000 if i > 150 else 0) + 7200
        lines.append(f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d} step {i}/1000 loss 2.3")
    got = read("\n".join(lines).encode() + b"\n")
    assert got.step == 199
    assert got.step_time_s == pytest.approx(2.0, rel=0.1)


def test_another_job_s_log_printed_in_between_is_not_this_one_s_end() -> None:
    own = b"".join(b"step %d/1000 loss %.3f 0.5 s/step\n" % (i, 3 - i / 999) for i in range(1, 300))
    other = b"".join(b"> step %d/70 loss 9.1 7.5 s/step\n" % i for i in range(1, 9))
    more = b"".join(b"step %d/1000 loss %.3f 0.5 s/step\n" % (i, 3 - i / 999) for i in range(300, 340))
    got = read(own + b"--- log of job 17 ---\n" + other + b"--- end ---\n" + more)
    assert (got.step, got.total_steps) == (339, 1000)
    assert got.step_time_s == pytest.approx(0.5)


def test_packed_logs_that_are_cut_off_or_damaged(tmp_path: Path) -> None:
    log = b"".join(b"step %d/1000 loss 2.3 0.5 s/step\n" % i for i in range(1, 900))
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(gzip.compress(log)[:-150])
    assert 100 < (track_file(cut).step or 0) < 900
    damaged = tmp_path / "damaged.log.xz"
    damaged.write_bytes(lzma.compress(log)[:6] + b"\xff" * 100)
    assert "damaged" in (track_file(damaged).fallback_reason or "")
    empty = tmp_path / "empty.log.gz"
    empty.write_bytes(gzip.compress(b""))
    assert track_file(empty).fallback_reason == "the log is empty"


def test_what_is_no_file_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="folder"):
        track_file(tmp_path)
    with pytest.raises(ExternalError, match="device"):
        track_file(Path("/dev/null"))
    hidden = tmp_path / "hidden.log"
    hidden.write_bytes(b"x")
    hidden.chmod(0)
    if os.access(hidden, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(ExternalError, match="Permission denied"):
        track_file(hidden)


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from([*LINES.values(), b"\r", b"\x1b[", b"\xff\xfe", "损失 ٣ ２".encode(), b"| 1 | 2 |"]),
        max_size=40,
    )
)
def test_mixtures_of_all_that_never_raise(lines: list[bytes]) -> None:
    read(b"\n".join(line.replace(b"%d", b"%d" % i) for i, line in enumerate(lines)))
