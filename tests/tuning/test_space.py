"""The settings that are searched: names that the policy knows, defaults that are its own."""

from __future__ import annotations

import pytest

from lucid_pipelines import policies
from lucid_pipelines.control import tuned
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.tuning.proposing import Strategy, proposer_of
from lucid_pipelines.tuning.space import RETRAIN, applicable, defaults_of, policy_values, space_for

CLUSTER = ClusterSpec.uniform({"a": 10, "b": 6})
SPACE = space_for(CLUSTER, retraining=True)


def test_every_default_is_the_policys_own_and_among_the_values() -> None:
    plain = policies.get("lucid")
    for setting in SPACE:
        assert setting.default in setting.values and list(setting.values) == sorted(setting.values), setting.name
    built = policies.get("lucid", **policy_values(defaults_of(SPACE)))
    assert built.profiling is not None and plain.profiling is not None
    assert built.profiling.profile_window_s == plain.profiling.profile_window_s
    assert built.profiling.profile_max_gpus == plain.profiling.profile_max_gpus
    assert built.profiling.busy_window_s == plain.profiling.busy_window_s


@pytest.mark.parametrize("end", [0, -1])
def test_any_corner_can_be_replayed_and_applied(end: int) -> None:
    corner = {setting.name: setting.values[end] for setting in SPACE}
    policies.get("lucid", **policy_values(corner))
    tuned.check_values(applicable(corner), "lucid")
    assert (RETRAIN in applicable(corner)) == (corner[RETRAIN] > 0), "never training again is not applied"


def test_a_busy_profiler_never_looks_longer_than_an_idle_one() -> None:
    for window_s in (30.0, 60.0, 100.0, 600.0):
        values = policy_values({"profile_window_s": window_s})
        assert values["busy_window_s"] <= window_s  # type: ignore[operator]


def test_unknown_settings_are_named() -> None:
    with pytest.raises(InputError, match="did you mean 'capacity'"):
        space_for(CLUSTER, ["capcity"])
    with pytest.raises(InputError, match="calendar"):
        space_for(CLUSTER, [RETRAIN])
    assert [s.name for s in space_for(CLUSTER, ["capacity", "tiny_above", "capacity"])] == ["capacity", "tiny_above"]
    assert RETRAIN not in {s.name for s in space_for(CLUSTER)}


@pytest.mark.parametrize("strategy", list(Strategy))
def test_proposals_repeat_and_none_comes_twice(strategy: Strategy) -> None:
    space = space_for(CLUSTER, ["capacity", "tiny_above", "profile_window_s"])

    def run() -> list[dict[str, float]]:
        proposer = proposer_of(strategy, space, 3)
        found: list[dict[str, float]] = []
        while len(found) < (24 if strategy is Strategy.GUIDED else 99) and (batch := proposer.ask(4)):
            found += batch
            for point in batch:
                proposer.tell(point, abs(point["profile_window_s"] - 300.0) + point["tiny_above"])
        return found

    first, again = run(), run()
    assert first == again
    keys = [tuple(sorted(point.items())) for point in first]
    assert len(set(keys)) == len(keys) == (24 if strategy is Strategy.GUIDED else 60)
    assert all(point[s.name] in s.values for point in first for s in space)
    assert strategy is Strategy.GUIDED or proposer_of(strategy, space, 3).ask(99) == first, "then it is exhausted"


def test_a_guided_search_goes_where_it_is_good() -> None:
    """Against known answers: more points near the optimum than random ones."""
    space = space_for(CLUSTER, ["profile_window_s", "profile_max_gpus", "medium_above", "off_below_jobs"])

    def loss(point: dict[str, float]) -> float:
        return sum((s.values.index(point[s.name]) - 1) ** 2 for s in space)

    means: dict[Strategy, float] = {}
    for strategy in (Strategy.RANDOM, Strategy.GUIDED):
        losses: list[float] = []
        for seed in range(2):
            proposer = proposer_of(strategy, space, seed)
            for _ in range(10):
                for point in proposer.ask(4):
                    losses.append(loss(point))
                    proposer.tell(point, loss(point))
        means[strategy] = sum(losses) / len(losses)
    assert means[Strategy.GUIDED] < means[Strategy.RANDOM]


def test_a_grid_that_is_too_large_is_refused_with_advice() -> None:
    with pytest.raises(InputError, match="search fewer settings"):
        proposer_of(Strategy.GRID, SPACE, 0)
    with pytest.raises(InputError, match="at least one setting"):
        proposer_of(Strategy.RANDOM, (), 0)
