"""The kept queue equals a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.policies.ordered_queue import OrderedQueue


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60))
def test_walk_position_and_iteration_agree_with_sorting(steps: list[tuple[int, int, bool]]) -> None:
    queue = OrderedQueue()
    plain: dict[str, tuple[tuple[float, ...], int, str, int]] = {}
    for number, (bucket, key, removes) in enumerate(steps):
        if removes and plain:
            gone = sorted(plain)[key % len(plain)]
            del plain[gone]
            queue.discard(gone)
            queue.discard("never there")
        else:
            job_id = f"j{number}"
            plain[job_id] = ((float(key),), number, job_id, bucket)
            queue.add(job_id, (float(key),), number, bucket)
    order = [job_id for _, _, job_id, _ in sorted(plain.values())]
    assert list(queue) == order
    assert len(queue) == len(order)
    assert [queue.position(job_id) for job_id in order] == list(range(len(order)))
    walked: list[str] = []
    walk = queue.walk()
    while (top := walk.peek()) is not None:
        walked.append(top[0][2])
        walk.advance()
    assert walked == order


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=30))
def test_a_dropped_bucket_is_gone_for_the_rest_of_the_walk(entries: list[tuple[int, int]]) -> None:
    queue = OrderedQueue()
    for number, (bucket, key) in enumerate(entries):
        queue.add(f"j{number}", (float(key),), number, bucket)
    walk = queue.walk()
    seen: list[object] = []
    while (top := walk.peek()) is not None:
        assert top[1] not in seen
        seen.append(top[1])
        walk.drop_bucket()
    assert sorted(seen, key=str) == sorted({bucket for bucket, _ in entries})
