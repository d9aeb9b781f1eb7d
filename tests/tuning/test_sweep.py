"""The search: equal scenarios for all, hopeless points dropped, nothing lost when it is killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.generator import generate
from lucid_pipelines.tuning.journal import Journal
from lucid_pipelines.tuning.measuring import measure
from lucid_pipelines.tuning.pages import markdown, response_plots
from lucid_pipelines.tuning.pareto import pareto_front
from lucid_pipelines.tuning.proposing import Strategy, proposer_of
from lucid_pipelines.tuning.response import respond
from lucid_pipelines.tuning.scenarios import Scenario, ScenarioSet, scenarios_of
from lucid_pipelines.tuning.space import defaults_of, space_for
from lucid_pipelines.tuning.sweep import Sweep, Trial, run_sweep, workers
from lucid_pipelines.tuning.tune import TuneRequest, tune
from lucid_pipelines.tuning.validation import candidates_of, judge
from tests.support_simulation.cases import trace_job

NOW = datetime(2026, 3, 2, tzinfo=UTC)
CLUSTER = ClusterSpec.uniform({"a": 7, "b": 1})
NAMES = ["profile_window_s", "profile_max_gpus", "medium_above", "off_below_jobs"]
SPACE = space_for(CLUSTER, NAMES)
DAY_S = 86_400.0


def scenarios(count: int = 3, prefix: str = "search") -> tuple[Scenario, ...]:
    return tuple(Scenario(f"{prefix}-{i}", (trace_job(f"{prefix}{i}", 0.0, 1.0),), CLUSTER) for i in range(count))


class Pretend:
    """A replay with a known answer: JCT grows with the distance from the best point; scenarios differ in level."""

    def __init__(self, *, unseen_bad: float = 0.0, tail: float = 1.0) -> None:
        self.calls: list[tuple[str, str]] = []
        self.die_at: int | None = None
        self._unseen_bad, self._tail = unseen_bad, tail

    def __call__(self, scenario: Scenario, values: Mapping[str, float]) -> dict[str, float | None]:
        if self.die_at is not None and len(self.calls) >= self.die_at:
            raise KeyboardInterrupt
        self.calls.append((scenario.name, json.dumps(dict(sorted(values.items())))))
        level = 1_000.0 * (1 + len(self.calls) % 1 + int(scenario.name[-1]))
        away = sum(abs(s.values.index(values[s.name]) - 3) for s in SPACE)
        at_default = all(values[s.name] == s.default for s in SPACE)
        factor = 1.0 + 0.05 * away
        if scenario.name.startswith("unseen") and not at_default:
            factor += self._unseen_bad
        return {
            "avg_jct_s": level * factor,
            "avg_queue_s": level * (factor - 0.5),
            "tail_large_s": level * (1.0 if at_default else self._tail),
            "profiling_gpu_h": values["profile_window_s"] / 100.0,
            "unended_jobs": 0.0,
            "fallbacks": 0.0,
        }


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    made = Pretend()
    monkeypatch.setattr("lucid_pipelines.tuning.sweep.measure", lambda scenario, values: made(scenario, values))
    return made


def swept(journal: Journal | None = None, trials: int = 40, strategy: Strategy = Strategy.GUIDED) -> Sweep:
    with workers(scenarios(), 1) as submit:
        return run_sweep(
            scenarios(),
            defaults_of(SPACE),
            proposer_of(strategy, SPACE, 0),
            trials=trials,
            journal=Journal(None, "f") if journal is None else journal,
            submit=submit,
        )


def test_every_point_meets_the_same_scenarios_and_the_hopeless_few(pretend: Pretend) -> None:
    found = swept()
    assert found.default.values == defaults_of(SPACE) and not found.default.dropped
    assert len(found.trials) == 41
    for trial in found.trials:
        assert list(trial.measures) == list(found.scenarios)[: len(trial.measures)]
        assert trial.dropped == (len(trial.measures) < 3)
    assert any(trial.dropped for trial in found.trials)
    assert len(pretend.calls) == len(set(pretend.calls)) == found.replayed < 41 * 3
    best = min(found.complete, key=lambda t: t.measures["search-0"]["avg_jct_s"] or 0)
    everything = [t.measures["search-0"]["avg_jct_s"] for t in found.trials]
    assert best.measures["search-0"]["avg_jct_s"] == min(everything), "the best is never dropped"


def test_a_killed_sweep_goes_on_where_it_was(pretend: Pretend, tmp_path: Path) -> None:
    whole = swept(Journal(tmp_path / "whole.jsonl", "f"))
    made = len(pretend.calls)
    pretend.calls.clear()
    for stop in (7, 30):
        pretend.die_at = stop
        with pytest.raises(KeyboardInterrupt):
            swept(Journal(tmp_path / "cut.jsonl", "f"))
    with (tmp_path / "cut.jsonl").open("ab") as file:
        file.write(b'{"scenario": "search-0", "val')
    pretend.die_at = None
    again = swept(Journal(tmp_path / "cut.jsonl", "f"))
    assert [t.measures for t in again.trials] == [t.measures for t in whole.trials]
    assert len(pretend.calls) == made, "no replay is made twice"
    assert again.resumed == 30 and again.replayed == made - 30
    with pytest.raises(StateError, match="another trace's sweep"):
        Journal(tmp_path / "cut.jsonl", "g")
    head = (tmp_path / "cut.jsonl").read_text().splitlines(keepends=True)[0]
    for rubbish in (
        "rubbish\n",
        head + "{}\n",
        head + '{"scenario": "s", "values": 3, "measures": {}}\n',
        "[" * 99_999 + "\n",
    ):
        (tmp_path / "cut.jsonl").write_text(rubbish)
        with pytest.raises(StateError, match="damaged"):
            Journal(tmp_path / "cut.jsonl", "f")


def test_two_sweeps_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    first = Journal(tmp_path / "replays.jsonl", "f")
    first.add("search-0", {"capacity": 1.0}, {"avg_jct_s": 5.0})
    with pytest.raises(StateError, match="another sweep is at work in this folder"):
        Journal(tmp_path / "replays.jsonl", "f")
    del first
    assert Journal(tmp_path / "replays.jsonl", "f").resumed == 1


def test_a_point_under_which_jobs_never_end_does_not_win(pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    def starving(scenario: Scenario, values: Mapping[str, float]) -> dict[str, float | None]:
        found = pretend(scenario, values)
        return {**found, "unended_jobs": float(values["profile_max_gpus"] == 1.0), "avg_jct_s": 1.0}

    monkeypatch.setattr("lucid_pipelines.tuning.sweep.measure", starving)
    assert all(trial.values["profile_max_gpus"] != 1.0 for trial in swept().complete)


def test_the_response_shows_what_matters(pretend: Pretend) -> None:
    found = swept(strategy=Strategy.RANDOM, trials=48)
    response = respond(found, SPACE, "avg_jct_s")
    assert response is not None and response.r2 is not None and response.r2 > 0.5
    window = {level.value: level.change_frac for level in response.levels["profile_window_s"]}
    assert window[300.0] == min(window.values()) and window[60.0] > 0
    assert next(v.change_frac for v in response.levels["profile_window_s"] if v.value == 200.0) == 0.0
    few = Sweep(found.trials[:6], found.scenarios, 0, 0)
    assert respond(few, SPACE, "avg_jct_s") is None


def test_the_front_holds_what_nobody_beats() -> None:
    def trial(number: int, jct: float, tail: float | None, hours: float, dropped: bool = False) -> Trial:
        measures = {"avg_jct_s": jct, "tail_large_s": tail, "profiling_gpu_h": hours}
        return Trial(number, {"n": float(number)}, {"s": measures}, dropped)

    trials = (
        trial(0, 100, 100, 10), trial(1, 90, 120, 10), trial(2, 95, 100, 12), trial(3, 101, 100, 10),
        trial(4, 90, 121, 10), trial(5, 50, 50, 1, dropped=True), trial(6, 120, None, 1),
    )  # fmt: skip
    assert [point.number for point in pareto_front(Sweep(trials, ("s",), 0, 0))] == [1, 2, 0, 6]


@pytest.mark.parametrize(
    ("pretends", "wins", "reason"),
    [
        (Pretend(), True, "on the unseen days"),
        (Pretend(unseen_bad=1.0), False, "does not win there"),
        (Pretend(tail=1.5), False, "tail wait of large jobs"),
    ],
    ids=["wins", "loses there", "large jobs pay"],
)
def test_only_what_wins_on_unseen_days_is_recommended(
    pretends: Pretend, wins: bool, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lucid_pipelines.tuning.sweep.measure", lambda scenario, values: pretends(scenario, values))
    given = ScenarioSet(scenarios(3), scenarios(3, "unseen"), 7.0)
    report = tune(given, SPACE, TuneRequest(trials=24 if wins else 10, folder=tmp_path, source="made up"), now=NOW)
    assert reason in report.reason
    assert (report.recommended is not None) == wins
    assert report.verdicts and all(v.searched_jct_ratio < 1 for v in report.verdicts)
    assert not [name for name, _ in pretends.calls[: report.sweep.replayed] if name.startswith("unseen")]
    written = json.loads((tmp_path / "tuned_settings.json").read_text())
    assert written["recommended"] == report.recommended and written["sweep_id"] == report.sweep_id
    text = markdown(report)
    assert "Pareto view" in text and ("Response of the mean JCT" if wins else "Too few points") in text
    assert all(svg.startswith("<svg") for _, svg in response_plots(report))
    if wins:
        assert set(report.recommended or ()) == {*NAMES, "busy_window_s"}


def test_a_win_within_the_noise_is_none() -> None:
    def trial(number: int, *jcts: float) -> Trial:
        return Trial(number, {"n": float(number)}, {f"s{i}": {"avg_jct_s": jct} for i, jct in enumerate(jcts)})

    searched = Sweep((trial(0, 100, 100), trial(1, 90, 90), trial(2, 95, 95)), ("s0", "s1"), 0, 0)
    assert [t.number for t in candidates_of(searched)] == [1, 2]
    noisy, sure = judge(searched, [trial(0, 100, 100, 100), trial(1, 50, 120, 110), trial(2, 97, 98, 97.5)])
    assert not noisy.wins and "not clearly better" in noisy.reason
    assert sure.wins


def test_scenarios_are_cut_by_time_and_the_newest_days_are_kept_away() -> None:
    jobs = [trace_job(f"j{i}", i * 600.0, 300.0) for i in range(144 * 9)]
    busier = [replace(job, gpu_util_pct=90.0) for job in jobs]
    found = scenarios_of([jobs, busier], CLUSTER, unseen_days=2.0, pieces=2, warmup_days=1.0)
    assert len(found.search) == len(found.unseen) == 4 and found.unseen_days == pytest.approx(2.0)
    edge = max(job.submit_s for job in jobs) - 2 * DAY_S
    for scenario in found.search:
        assert all(DAY_S <= job.submit_s < edge for job in scenario.jobs)
    for scenario in (*found.search, *found.unseen):
        begin = min(job.submit_s for job in scenario.jobs)
        assert scenario.history and all(job.submit_s + job.duration_s < begin for job in scenario.history)
    taken = [job.job_id for s in (*found.search, *found.unseen) if s.name.endswith("seed-0") for job in s.jobs]
    assert len(taken) == len(set(taken)) == sum(job.submit_s >= DAY_S for job in jobs)
    assert scenarios_of([jobs], CLUSTER, unseen_days=99.0).unseen_days == pytest.approx(3.0, abs=0.01)
    assert found.fingerprint() != scenarios_of([jobs, jobs[1:]], CLUSTER, unseen_days=2.0).fingerprint()
    with pytest.raises(InputError, match="50 are needed"):
        scenarios_of([jobs[:60]], CLUSTER)


def test_seeds_that_change_nothing_are_no_further_observations() -> None:
    jobs = [trace_job(f"j{i}", i * 600.0, 300.0) for i in range(144 * 9)]
    busier = [replace(job, gpu_util_pct=90.0) for job in jobs]
    found = scenarios_of([jobs, list(jobs), busier, busier], CLUSTER, pieces=1)
    assert [scenario.name for scenario in found.unseen] == ["unseen-0-seed-0", "unseen-0-seed-1"]


def test_a_real_replay_is_measured_and_repeats() -> None:
    jobs = [replace(job, vc="a", gpus=min(job.gpus, 8.0)) for job in generate(1, jobs=260, days=4, vcs=1).jobs]
    scenario = scenarios_of([jobs], CLUSTER, unseen_days=1.0, pieces=1).search[0]
    space = space_for(CLUSTER)
    first, again = measure(scenario, defaults_of(space)), measure(scenario, defaults_of(space))
    assert {k: v for k, v in first.items() if k != "wall_s"} == {k: v for k, v in again.items() if k != "wall_s"}
    assert first["avg_jct_s"] and first["profiling_gpu_h"] is not None and first["unended_jobs"] == 0
    longer = measure(scenario, {**defaults_of(space), "profile_window_s": 600.0})
    assert (longer["profiling_gpu_h"] or 0) > first["profiling_gpu_h"]


@pytest.mark.slow
def test_processes_change_nothing_but_the_time(tmp_path: Path) -> None:
    trace = generate(1, jobs=260, days=4, vcs=1)
    assert trace.cluster is not None
    given = scenarios_of([trace.jobs], trace.cluster, unseen_days=1.0, pieces=1)
    space = space_for(trace.cluster, NAMES)
    one, two = (
        tune(given, space, TuneRequest(trials=6, processes=processes, folder=tmp_path / str(processes)), now=NOW)
        for processes in (1, 2)
    )

    def timeless(report) -> list:
        return [
            {s: {k: v for k, v in m.items() if k != "wall_s"} for s, m in t.measures.items()}
            for t in report.sweep.trials
        ]

    assert timeless(one) == timeless(two)
    assert one.recommended == two.recommended
