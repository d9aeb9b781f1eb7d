"""One suite for every place in which a history index can be kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, event

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.similarity import HistoryFilter, IndexEntry, PastJob, VectorSpace
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.ports import HistoryIndex
from lucid_pipelines.resources.history_index import EmbeddedIndex, open_index
from lucid_pipelines.resources.history_index.memory import MemoryIndex
from lucid_pipelines.resources.history_index.tables import metadata
from tests.support_advisor.index_places import old_server, redis_url, running
from tests.support_advisor.past import ANYTHING, LATER, SPACE, at_angle, day, entry, past, random_unit
from tests.support_pg.fixtures import server_or_skip

Maker = Callable[..., HistoryIndex]
_serial = count()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_url(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    server = server_or_skip()
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture(
    params=[
        "sqlite",
        "memory",
        "fakeredis",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("redis", marks=pytest.mark.redis),
    ]
)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Maker]:
    """A function that opens the same index again and again, as several processes would."""
    kind: str = request.param
    if kind == "sqlite":
        yield lambda space=SPACE: open_index(f"sqlite:///{tmp_path / 'history.db'}", space)
    elif kind == "memory":
        opened: dict[VectorSpace, MemoryIndex] = {}
        yield lambda space=SPACE: opened.setdefault(space, MemoryIndex(space))
    elif kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        yield lambda space=SPACE: open_index(url, space)
        with create_engine(url.replace("postgresql:", "postgresql+psycopg2:")).begin() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
    else:
        from redis import Redis

        from lucid_pipelines.resources.history_index.redis_sets import RedisIndex

        if kind == "fakeredis":
            pytest.importorskip("jsonpath_ng", reason="fakeredis[vectorset] is not installed")
            import fakeredis

            server = fakeredis.FakeServer()
            client: Redis = fakeredis.FakeRedis(server=server, version=(8, 0), protocol=3)
        else:
            client = Redis.from_url(request.getfixturevalue("redis_server"), protocol=3)
        prefix = f"lucid-test-{next(_serial)}"
        yield lambda space=SPACE: RedisIndex(client, space, prefix)


@pytest.fixture
def index(make: Maker) -> HistoryIndex:
    return make()


def ids(index: HistoryIndex, degrees: float = 0.0, k: int = 10, as_of: datetime = LATER, **more: object) -> list[str]:
    where = more.get("where", ANYTHING)
    threshold = more.get("threshold", -1.0)
    assert isinstance(where, HistoryFilter) and isinstance(threshold, float)
    found = index.search(at_angle(degrees), k, as_of, where, threshold)
    return [match.job.job_id for match in found.matches]


def test_the_nearest_come_first_with_their_cosine(index: HistoryIndex) -> None:
    index.add([entry(past("far"), 60), entry(past("near"), 10), entry(past("same"), 0), entry(past("against"), 180)])
    found = index.search(at_angle(0), 4, LATER, ANYTHING, -1.0)
    assert [match.job.job_id for match in found.matches] == ["same", "near", "far", "against"]
    cosines = [math.cos(math.radians(angle)) for angle in (0, 10, 60, 180)]
    assert [match.similarity for match in found.matches] == pytest.approx(cosines, abs=1e-5)
    assert found.reason is None
    assert (found.total_count, found.eligible_count) == (4, 4)


def test_every_fact_of_a_job_comes_back(index: HistoryIndex) -> None:
    job = past("a", software=(("cuda", "12.4"), ("torch", "2.4.0")), outcome=Outcome.FAILED_USER, duration_s=None)
    index.add([entry(job)])
    assert index.search(at_angle(0), 1, LATER, ANYTHING, -1.0).matches[0].job == job
    assert list(index.jobs()) == [job]


def test_nothing_later_than_as_of_is_visible(index: HistoryIndex) -> None:
    index.add([entry(past("old", 1), 5), entry(past("new", 3), 0)])
    assert ids(index, as_of=day(2)) == ["old"]
    assert ids(index, as_of=day(3)) == ["new", "old"]
    nothing = index.search(at_angle(0), 3, day(0.5), ANYTHING, -1.0)
    assert nothing.matches == ()
    assert (nothing.total_count, nothing.eligible_count) == (2, 0)
    assert nothing.reason is not None and "none of 2" in nothing.reason


def test_filters_come_before_neighbours(index: HistoryIndex) -> None:
    """A thousand nearer jobs of another kind do not crowd out the few that match."""
    index.add([entry(past(f"other-{i}", task_type="speech recognition")) for i in range(300)])
    index.add([entry(past(f"mine-{i}"), 40 + i) for i in range(3)])
    where = HistoryFilter(task_type="image classification")
    assert ids(index, k=3, where=where) == ["mine-0", "mine-1", "mine-2"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (HistoryFilter(), ["a", "b", "c", "d"]),
        (HistoryFilter(task_type="image classification"), ["a", "b", "c"]),
        (HistoryFilter(gpu_family="a100"), ["a", "b", "d"]),
        (HistoryFilter(gpu_count_class=4), ["b"]),
        (HistoryFilter(task_type="image classification", gpu_family="a100", gpu_count_class=1), ["a"]),
        (HistoryFilter(exclude_job_ids=frozenset({"a", "c", "nobody"})), ["b", "d"]),
        (HistoryFilter(task_type="no such task"), []),
    ],
)
def test_each_filter(index: HistoryIndex, where: HistoryFilter, expected: list[str]) -> None:
    jobs = [
        past("a"),
        past("b", gpus=3),
        past("c", gpu_type="V100"),
        past("d", task_type=None, gpus=None),
    ]
    index.add([entry(job, 2 * place) for place, job in enumerate(jobs)])
    assert ids(index, where=where) == expected
    assert all(where.admits(job) == (job.job_id in expected) for job in jobs)


def test_fewer_than_k_has_a_reason(index: HistoryIndex) -> None:
    empty = index.search(at_angle(0), 3, LATER, ANYTHING, 0.9)
    assert empty.reason is not None and "no past job" in empty.reason
    index.add([entry(past("near"), 10), entry(past("far"), 60)])
    found = index.search(at_angle(0), 3, LATER, ANYTHING, 0.9)
    assert [match.job.job_id for match in found.matches] == ["near"]
    assert found.nearest_rejected == pytest.approx(0.5, abs=1e-5)
    assert found.reason is not None and "0.500" in found.reason
    assert index.search(at_angle(0), 1, LATER, ANYTHING, 0.9).reason is None
    few = index.search(at_angle(0), 3, LATER, ANYTHING, -1.0)
    assert few.reason is not None and "only 2" in few.reason


def test_of_equally_similar_jobs_the_newest_are_taken(index: HistoryIndex) -> None:
    text = "model: resnet50"
    index.add([entry(past(f"run-{i:03}", ended_day=i / 100, fingerprint=text), 20) for i in range(120)])
    assert ids(index, k=2) == ["run-119", "run-118"]
    assert ids(index, k=2, as_of=day(0.505)) == ["run-050", "run-049"]


def test_adding_again_replaces(index: HistoryIndex) -> None:
    assert index.add([entry(past("a"), 0), entry(past("b"), 30)]) == 2
    assert ids(index) == ["a", "b"]
    assert index.add([entry(past("a", gpus=8, fingerprint="model: another"), 80), entry(past("c"), 10)]) == 1
    assert ids(index) == ["c", "b", "a"]
    assert ids(index, where=HistoryFilter(gpu_count_class=8)) == ["a"]
    assert index.count() == 3
    assert index.add([entry(past("c"), 10)]) == 0
    assert index.add([]) == 0


def test_the_last_of_two_entries_for_one_job_counts(index: HistoryIndex) -> None:
    assert index.add([entry(past("a", 1)), entry(past("a", 2))]) == 1
    assert ids(index, as_of=day(1.5)) == []
    assert ids(index) == ["a"]


def test_removing(index: HistoryIndex) -> None:
    index.add([entry(past(name)) for name in "abc"])
    assert index.remove(["a", "nobody", "a"]) == 1
    assert sorted(ids(index)) == ["b", "c"]
    assert index.count() == 2
    assert index.remove(["a"]) == 0
    assert [job.job_id for job in index.jobs()] == ["b", "c"]


def test_what_one_process_does_others_see(make: Maker) -> None:
    one, other = make(), make()
    one.add([entry(past("a")), entry(past("b"), 20)])
    assert ids(other) == ["a", "b"]
    other.remove(["a"])
    other.add([entry(past("c"), 10)])
    assert ids(one) == ["c", "b"]
    assert ids(make()) == ["c", "b"]


def test_spaces_do_not_mix(make: Maker) -> None:
    one = make()
    others = [make(VectorSpace("test", 16, 2)), make(VectorSpace("another", 16, 1)), make(VectorSpace("test", 8, 1))]
    one.add([entry(past("a"))])
    assert [other.count() for other in others] == [0, 0, 0]
    others[2].add([IndexEntry(past("b"), at_angle(0, 8))])
    assert ids(one) == ["a"]
    assert [match.job.job_id for match in others[2].search(at_angle(0, 8), 5, LATER, ANYTHING, -1.0).matches] == ["b"]


@pytest.mark.parametrize(
    "vector",
    [
        [1.0] * 3,
        [1.0, *([0.0] * 16)],
        [math.nan, *([0.0] * 15)],
        [math.inf, *([0.0] * 15)],
        [0.0] * 16,
        [0.5, *([0.0] * 15)],
    ],
    ids=["short", "long", "nan", "infinite", "zero", "not normalised"],
)
def test_unusable_vectors_are_refused(index: HistoryIndex, vector: list[float]) -> None:
    """A server takes bytes of any length as a vector, and NaN: neither may reach it."""
    with pytest.raises(InputError):
        index.add([entry(past("good")), IndexEntry(past("bad"), vector)])
    with pytest.raises(InputError):
        index.search(vector, 1, LATER, ANYTHING, -1.0)
    assert index.count() == 0


def test_unusable_questions_are_refused(index: HistoryIndex) -> None:
    with pytest.raises(InputError):
        index.search(at_angle(0), 0, LATER, ANYTHING, -1.0)
    with pytest.raises(InputError, match="time zone"):
        index.search(at_angle(0), 1, datetime(2026, 1, 1), ANYTHING, -1.0)  # noqa: DTZ001


def test_names_that_look_like_something_else(index: HistoryIndex) -> None:
    names = ["a b", "ü", "'; DROP TABLE history_index_jobs; --", "{x}", "*", "-1", "COUNT"]
    index.add([entry(past(name, task_type=name)) for name in names])
    assert sorted(ids(index)) == sorted(names)
    assert all(ids(index, where=HistoryFilter(task_type=name)) == [name] for name in names)
    assert index.remove(names) == len(names)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), share=st.floats(0, 1), data=st.data())
def test_the_answer_is_that_of_looking_at_everything(
    make: Maker, seed: int, k: int, share: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    index = make(VectorSpace(f"property-{seed}-{data.draw(st.integers(0, 10**9))}", 16, 1))
    jobs = [_random_job(rng, number) for number in range(40)]
    vectors = {job.job_id: random_unit(rng) for job in jobs}
    index.add([IndexEntry(job, vectors[job.job_id].tolist()) for job in jobs])
    question, as_of = random_unit(rng), day(10 * share)
    where = HistoryFilter(
        data.draw(st.sampled_from([None, "x", "y"])), None, data.draw(st.sampled_from([None, 1, 2, 4]))
    )
    eligible = [job for job in jobs if job.ended_at <= as_of and where.admits(job)]
    expected = sorted(((float(question @ vectors[job.job_id]), job.job_id) for job in eligible), reverse=True)[:k]
    found = index.search(question.tolist(), k, as_of, where, -1.0)
    assert [match.job.job_id for match in found.matches] == [job_id for _, job_id in expected]
    assert [match.similarity for match in found.matches] == pytest.approx([cosine for cosine, _ in expected], abs=1e-5)
    assert found.eligible_count == len(eligible)
    assert (found.reason is None) == (len(expected) == k)


def _random_job(rng: np.random.Generator, number: int) -> PastJob:
    task, gpus = str(rng.choice(["x", "y"])), int(rng.integers(1, 5))
    return past(f"job-{number:02}", float(rng.uniform(0, 10)), task_type=task, gpus=gpus)


# ---------------------------------------------------------------------- places


def test_a_database_that_is_away_is_an_outage(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="database"):
        open_index(f"sqlite:///{tmp_path / 'missing' / 'history.db'}", SPACE)


@pytest.mark.parametrize("url", ["nonsense", "nosuchdb://x/y", ""])
def test_an_unknown_kind_of_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="redis://"):
        open_index(url, SPACE)


def test_a_server_that_is_away_is_an_outage() -> None:
    with pytest.raises(ExternalError, match="Redis"):
        open_index("redis://127.0.0.1:1/0", SPACE)


def test_a_server_without_vector_sets_is_told_so(tmp_path: Path) -> None:
    binary = old_server()
    with running(binary, tmp_path) as url:
        from redis import Redis

        version = Redis.from_url(url).info("server")["redis_version"]
        if int(str(version).partition(".")[0]) >= 8:
            pytest.skip(f"the server on the path has vector sets: {version}")
        with pytest.raises(ExternalError, match=r"needs Redis 8\.0 or newer.*embedded.*Redis " + version):
            open_index(url, SPACE)


def test_a_batch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Either all of a batch is there or none of it."""
    engine = create_engine(f"sqlite:///{tmp_path / 'history.db'}")
    index = EmbeddedIndex(engine, SPACE)
    index.add([entry(past("before"))])

    def fail(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("INSERT INTO history_index_jobs"):
            raise OSError("the disk is full")

    event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(OSError, match="full"):
        index.add([entry(past("a")), entry(past("before", gpus=2))])
    event.remove(engine, "before_cursor_execute", fail)
    assert ids(index) == ["before"]
    assert index.add([entry(past("a"))]) == 1


def test_equal_fingerprints_share_one_vector(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'history.db'}")
    index = EmbeddedIndex(engine, SPACE)
    index.add([entry(past(f"run-{i}", fingerprint="model: x")) for i in range(50)])

    def vectors() -> int:
        with engine.connect() as connection:
            return int(connection.exec_driver_sql("SELECT count(*) FROM history_index_vectors").scalar_one())

    assert vectors() == 1
    index.remove([f"run-{i}" for i in range(49)])
    assert (vectors(), ids(index)) == (1, ["run-49"])
    index.remove(["run-49"])
    assert vectors() == 0
