from __future__ import annotations

import gzip
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.logs import Extent
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import HEAD_BYTES, track_extent, track_file, track_files
from tests.support_tracker.formats import FORMATS
from tests.support_tracker.write import write


def log_of(name: str, **options: int | bool) -> bytes:
    form = next(form for form in FORMATS if form.name == name)
    return write(form, **options).data  # type: ignore[arg-type]


def track(data: bytes, tail_bytes: int = 1 << 20) -> Progress:
    start = max(0, len(data) - tail_bytes)
    extent = Extent(len(data), data[:HEAD_BYTES], data[start:], start, data[:start].count(b"\n"))
    return track_extent(extent, parser=RecordParser()).progress


def test_the_answer_is_typed_and_names_its_lines() -> None:
    data = b"".join(b"step %d/500 loss %.4f time 0.51s\n" % (i, 3 - i / 500) for i in range(10, 310, 10))
    got = track(data)
    assert (got.step, got.total_steps, got.step_unit) == (300, 500, "step")
    assert got.loss == pytest.approx(2.4)
    assert got.step_time_s == pytest.approx(0.51)
    assert got.step_time_source == "printed"
    assert got.eta_s == pytest.approx(200 * 0.51)
    assert got.confidence > 0.7
    assert got.fallback_reason is None
    assert got.evidence[0].line == 30
    assert got.evidence[0].text == "step 300/500 loss 2.4000 time 0.51s"
    assert data[got.evidence[0].offset :].startswith(b"step 300/500")


def test_the_row_for_the_command_line_has_exactly_the_agreed_keys() -> None:
    row = track(b"nothing\n").to_json("a.log")
    assert list(row) == [
        "file", "step", "total_steps", "step_time_s", "loss", "throughput", "throughput_unit", "epoch", "eta_s",
        "confidence", "evidence", "fallback_reason",
    ]  # fmt: skip
    assert row["step"] is None
    assert row["fallback_reason"]


def test_epochs_are_joined_where_their_base_is_known() -> None:
    rows = [
        f"Epoch {e}/3 batch {i}/40 loss {3 - e - i / 40:.3f} 12 ms/step" for e in range(1, 4) for i in range(5, 41, 5)
    ]
    got = track("\n".join(rows).encode())
    assert (got.step, got.total_steps) == (40, 40)
    assert (got.global_step, got.global_total_steps) == (120, 120)
    zero_based = [f"epoch {e} batch {i}/40 loss {3 - e - i / 40:.3f}" for e in range(3) for i in range(5, 41, 5)]
    got = track("\n".join(zero_based[:-1]).encode())
    assert (got.step, got.global_step, got.global_total_steps) == (35, 115, None)


def test_a_restart_from_a_checkpoint_counts_from_there() -> None:
    rows = [f"step {i} loss 2.{i:03d} (0.5 s/step)" for i in (*range(500, 640, 10), *range(600, 720, 10))]
    got = track("\n".join(rows).encode())
    assert got.step == 710
    assert got.step_time_s == pytest.approx(0.5)


def test_a_loss_that_is_not_a_number_is_missing() -> None:
    rows = [f"step {i} loss nan 5 ms/step" for i in range(30)]
    got = track("\n".join(rows).encode())
    assert (got.step, got.loss) == (29, None)


def test_ranks_that_print_the_same_step_are_one_job() -> None:
    rows = [
        f"[rank{r}]: 2025-01-01 00:{i // 60:02d}:{i % 60:02d} step {i * 10} loss {3 - i / 100:.3f}"
        for i in range(60)
        for r in range(8)
    ]
    got = track("\n".join(rows).encode())
    assert got.step == 590
    assert got.step_time_s == pytest.approx(0.1, rel=0.05)


def test_evaluation_loops_do_not_become_steps() -> None:
    rows: list[str] = []
    for epoch in range(3):
        rows += [
            f"Epoch: [{epoch}][{i:4d}/400]  Time 0.200 (0.21)  Loss {2 - epoch / 4:.3f} (2.0)"
            for i in range(0, 400, 20)
        ]
        rows += [f"Test: [{i:4d}/100]  Time 0.050 (0.05)  Loss 1.234 (1.2)" for i in range(0, 100, 5)]
    got = track("\n".join(rows).encode())
    assert (got.step, got.total_steps) == (380, 400)
    assert got.loss == pytest.approx(1.5)
    assert got.step_time_s == pytest.approx(0.2)


def bar(i: int, n: int, tail: str = "") -> str:
    return f"\r {100 * i // n:3d}%|####      | {i}/{n} [00:{i % 60:02d}<00:30,  1.00it/s{tail}]"


def test_validation_bars_between_epochs_do_not_become_steps() -> None:
    text = ""
    for epoch in range(1, 6):
        text += "".join(bar(i, 100, f", loss={3 - epoch / 3 - i / 500:.3f}") for i in range(1, 101))
        text += f"\nepoch {epoch} train loss {2.9 - epoch / 3:.4f} val loss {3 - epoch / 3:.4f}\n"
        text += "".join(bar(i, 20) for i in range(1, 21))
    ended = track(text.encode())
    assert (ended.step, ended.total_steps) == (100, 100)
    cut = text.rindex("61/100") - 40
    within = track(text[: text.index("\r", cut + 60)].encode())
    assert within.total_steps == 100
    assert within.step in (60, 61)


def test_an_evaluation_that_looks_like_training_comes_after_it() -> None:
    text = ""
    for epoch in range(1, 5):
        text += f"Epoch {epoch}/4\n"
        text += (
            "".join(f"\r{i:3d}/200 - 20s 98ms/step - loss: {2 - epoch / 5 - i / 2000:.4f}" for i in range(1, 201))
            + "\n"
        )
    training = track(text.encode())
    evaluated = track((text + "".join(f"\r{i:3d}/50 - 5s 31ms/step - loss: 1.5" for i in range(1, 51)) + "\n").encode())
    assert (training.step, training.total_steps) == (evaluated.step, evaluated.total_steps) == (200, 200)
    assert training.loss == evaluated.loss == pytest.approx(1.1)
    assert evaluated.step_time_s == pytest.approx(0.098)


def test_a_shorter_epoch_is_still_an_epoch() -> None:
    text = "".join(
        f"Epoch {epoch}/9\n" + "".join(f"\r{i}/{n} - 98ms/step - loss: 1.{n}" for i in range(1, n + 1)) + "\n"
        for epoch, n in ((1, 200), (2, 200), (3, 120))
    )
    got = track(text.encode())
    assert (got.step, got.total_steps) == (120, 120)


def test_a_time_without_unit_is_settled_by_the_log_s_dates() -> None:
    rows = ["start datetime: 2025-01-01 10:00:00"]
    rows += [
        f'{{"iteration": {i}, "elapsed_time_per_iteration": {1100.5 + i % 3}, "lm_loss": {3 - i / 900:.4f}}}'
        for i in range(1, 300)
    ]
    rows += ["end datetime: 2025-01-01 10:05:30"]
    assert track("\n".join(rows).encode()).step_time_s == pytest.approx(1.1015, rel=0.01)
    assert track("\n".join(rows[1:-1]).encode()).step_time_s is None


def test_a_rate_since_the_start_is_overruled_by_a_steady_clock() -> None:
    rows = [
        f"2025-01-01 00:{i // 6:02d}:{i % 6 * 10:02d} step {i * 10} loss {3 - i / 100:.3f} "
        f"avg time {0.4 + i / 1000:.3f}s"
        for i in range(60)
    ]
    got = track("\n".join(rows).encode())
    assert got.step_time_s == pytest.approx(1.0, rel=0.02)
    assert got.step_time_source == "timestamps"


@pytest.mark.parametrize("name", ["keras2_bar", "tianshou", "fairseq", "home_rank_lines", "olmo", "torchtune"])
def test_every_length_of_tail_gives_the_same_answer_once_it_holds_enough(name: str) -> None:
    data = log_of(name, seed=7, noisy=True, reports=200)
    assert track(data, len(data)).step == track(data, 60_000).step
    assert track(data, len(data)).loss == track(data, 60_000).loss


@settings(max_examples=60)
@given(st.binary(max_size=2000))
def test_garbage_never_raises(data: bytes) -> None:
    got = track(data)
    assert got.step is None or got.step >= 0


@settings(max_examples=60)
@given(st.lists(st.text(max_size=60), max_size=40))
def test_garbage_text_never_raises(lines: list[str]) -> None:
    track("\n".join(lines).encode("utf-8", "surrogatepass"))


@settings(max_examples=40)
@given(st.sampled_from(FORMATS), st.integers(0, 5), st.data())
def test_a_log_with_garbage_in_it_never_raises_and_never_goes_far_wrong(
    form: object, seed: int, data: st.DataObject
) -> None:
    assert isinstance(form, type(FORMATS[0]))
    lines = write(form, seed=seed, reports=60).data.split(b"\n")
    for _ in range(5):
        at = data.draw(st.integers(0, len(lines)))
        lines.insert(at, data.draw(st.binary(max_size=80)).replace(b"\n", b""))
    got = track(b"\n".join(lines))
    assert got.step is None or got.step >= 0
    assert got.step_time_s is None or got.step_time_s > 0


def test_compressed_and_plain_files_give_one_answer(tmp_path: Path) -> None:
    data = log_of("nanotron", reports=300)
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data))
    plain, packed = track_file(tmp_path / "a.log"), track_file(tmp_path / "a.log.gz")
    assert plain.step is not None
    assert plain == packed
    with pytest.raises(NotFoundError):
        track_file(tmp_path / "gone.log")


def test_empty_and_tiny_files(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    for data in (b"", b"\n", b"\0\0", b"\r\r\r", b"\xff\xfe"):
        log.write_bytes(data)
        assert track_file(log).is_missing


def test_of_per_rank_logs_the_most_telling_is_taken(tmp_path: Path) -> None:
    data = log_of("build_nanogpt", reports=80)
    paths = [tmp_path / f"rank_{i}.log" for i in range(3)]
    paths[0].write_bytes(b"init done\n")
    paths[1].write_bytes(data)
    paths[2].write_bytes(data)
    assert track_files(paths).step == track_file(paths[1]).step
    assert track_files([]).is_missing


def test_a_growing_log_of_ten_gigabytes_is_answered_at_once_in_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "huge.log"
    with log.open("wb") as file:
        file.write(b"starting training\n")
        os.truncate(log, 10 << 30)
        file.seek(10 << 30)
        file.write(b"\n")
        file.write(log_of("maxtext", reports=400))
    track_file(log)
    tracemalloc.start()
    begin = time.perf_counter()
    got = track_file(log)
    took_s = time.perf_counter() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got.step is not None
    assert got.evidence[0].line is None
    assert got.evidence[0].offset > 10 << 30
    assert took_s < 2
    assert peak < 100 << 20


def test_one_line_of_ten_megabytes_is_a_bar_like_any_other(tmp_path: Path) -> None:
    bar = b"".join(
        b"\rTraining: %3d%%|##### | %d/90000 [10:00<20:00, 4.00it/s, loss=%.4f]" % (i // 900, i, 5 - i / 90000)
        for i in range(1, 89_000, 1)
    )
    assert len(bar) > 5_000_000
    log = tmp_path / "bar.log"
    log.write_bytes(b"start\n" + bar)
    got = track_file(log)
    assert (got.step, got.total_steps) == (88_999, 90_000)
    assert got.step_time_s == pytest.approx(0.25)
