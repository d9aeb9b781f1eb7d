from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.logs import NO_LABELS, Labels, detect_labels, rank_from_path, rank_inside, split_prefix


@pytest.mark.parametrize(
    ("text", "rank", "rest"),
    [
        ("[default0]:step 5", 0, "step 5"),
        ("[rank6]: Traceback", 6, "Traceback"),
        ("[rank2]:[W311 09:15:22.772 reducer.cpp:1389] Warning", 2, "[W311 09:15:22.772 reducer.cpp:1389] Warning"),
        ("[1,2]<stdout>:loss 1", 2, "loss 1"),
        ("[1,12]<stderr>: loss 1", 12, "loss 1"),
        ("Tue Mar 11 12:00:05 2025[1,0]<stdout>:loss 1", 0, "loss 1"),
        ("[trainer3]: x", 3, "x"),
        ("[Rank 0] step=10", 0, "step=10"),
        ("(rank 3) hello", 3, "hello"),
        ("rank 7: grad bucket", 7, "grad bucket"),
        ("2024-08-25T07:37:28.501037123Z [rank1]: x", 1, "x"),
        ("2024-08-25T07:37:28.501037123Z stdout F x", None, "x"),
        ("[pod/train-0/main] [rank1]: x", 1, "x"),
        ("(RayTrainWorker pid=123, ip=10.0.0.1) step 1", None, "step 1"),
        ("(pid=123) step 1", None, "step 1"),
        ("worker-1  | step 1", None, "step 1"),
        ("Mar 11 12:40:02 node1 train[123]: step 1", None, "step 1"),
        ("Epoch: [4][10/100] loss", None, "Epoch: [4][10/100] loss"),
        ("[epoch3]: loss 1", None, "[epoch3]: loss 1"),
        ("[1,  2000] loss: 2.213", None, "[1,  2000] loss: 2.213"),
        ("12: loss 3", None, "12: loss 3"),
    ],
)
def test_prefix_is_found_and_taken_off(text: str, rank: int | None, rest: str) -> None:
    prefix = split_prefix(text)
    assert prefix.rank == rank
    assert text[prefix.size :] == rest


def test_ambiguous_labels_only_when_told() -> None:
    assert split_prefix("12: text", Labels(task=True)).rank == 12
    host = split_prefix("worker-1: text", Labels(host=True))
    assert (host.host, host.size) == ("worker-1", 10)
    both = split_prefix("3: [default3]:x", Labels(task=True))
    assert both.rank == 3
    assert both.size == len("3: [default3]:")


def test_the_container_runtime_time_is_kept() -> None:
    prefix = split_prefix("2024-08-25T07:37:28.5Z 1")
    assert prefix.carrier_time is not None
    at = prefix.carrier_time.at()
    assert at is not None
    assert at.isoformat() == "2024-08-25T07:37:28.500000+00:00"


def test_srun_labels_are_seen_in_many_lines_together() -> None:
    lines = [f"{(7 * i) % 16}: step {i} loss {i / 3}" for i in range(50)]
    assert detect_labels(lines) == Labels(task=True)
    assert detect_labels([f"node{i % 4}: step {i}" for i in range(50)]) == Labels(host=True)


def test_a_counter_before_a_colon_is_no_label() -> None:
    assert detect_labels([f"{i}: learn: {1 / (i + 1)} total: {i}s" for i in range(50)]) == NO_LABELS
    assert detect_labels([f"conv{i}: 3x3" for i in range(50)]) == NO_LABELS
    assert detect_labels(["0: a", "1: b"]) == NO_LABELS
    assert detect_labels(["INFO: x"] * 50) == NO_LABELS


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("logs/rank_3.log", 3),
        ("attempt_0/5/stdout.log", 5),
        ("worker-12.err", 12),
        ("jobs/j-1/attempts/2/output.log", None),
        ("jobs/j-1/attempts/2/rank_3.log", 3),
        ("train.log", None),
        ("2024/stderr.log", 2024),
        ("run3/train.log", None),
    ],
)
def test_rank_from_path(path: str, rank: int | None) -> None:
    assert rank_from_path(path) == rank


def test_rank_inside_the_text() -> None:
    assert rank_inside("[2024-01-10 03:07:32,164] [INFO] [logging.py:128:log_dist] [Rank 0] step=10") == 0
    assert rank_inside("heartbeat rank=7 alive") == 7
    assert rank_inside("nothing") is None


@given(st.text(max_size=120), st.booleans(), st.booleans())
def test_garbage_never_raises(text: str, task: bool, host: bool) -> None:
    prefix = split_prefix(text, Labels(task, host))
    assert 0 <= prefix.size <= len(text)
