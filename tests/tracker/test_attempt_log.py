from __future__ import annotations

import pytest

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import LogChunk
from lucid_pipelines.tracker.attempt_log import AttemptLog
from lucid_pipelines.tracker.follow import follow


class Cluster:
    """Serves one log in small pieces, as a remote one may."""

    def __init__(self, data: bytes, piece: int = 700) -> None:
        self.data, self.piece, self.is_down = data, piece, False

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        if self.is_down:
            raise ExternalError(f"no answer about {attempt_id}")
        restarted = offset > len(self.data)
        start = 0 if restarted else offset
        data = self.data[start : start + min(max_bytes, self.piece)]
        return LogChunk(data, start, start + len(data), len(self.data), restarted)


LOG = b"".join(b"step %d/900 loss %.4f 0.5 s/step\n" % (i, 3 - i / 900) for i in range(1, 400))


def test_a_log_behind_a_cluster_is_followed_like_a_file() -> None:
    cluster = Cluster(LOG[:-1000])
    first = follow(AttemptLog(cluster, "a1"))
    cluster.data = LOG
    second = follow(AttemptLog(cluster, "a1"), first.state)
    assert second.progress.step == 399
    assert second.new_samples[0].step == first.new_samples[-1].step + 1


def test_a_log_that_shrinks_while_it_is_read_gives_nothing_false() -> None:
    source = AttemptLog(Cluster(b"abc"), "a1")
    assert source.read_at(10, 5) == b""
    assert source.read_at(1, 5) == b"bc"
    assert source.size() == 3


def test_a_cluster_out_of_reach_is_not_an_empty_log() -> None:
    cluster = Cluster(LOG)
    cluster.is_down = True
    with pytest.raises(ExternalError, match="a1"):
        follow(AttemptLog(cluster, "a1"))
