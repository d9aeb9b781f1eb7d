"""Applying tuned settings: a person's act, on record, and reversible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.client import Client
from lucid_pipelines.control import tuned
from lucid_pipelines.control.system import build_policy
from lucid_pipelines.control.tuner_runs import TunerPlan, propose_newest, sweep_own_history, trace_of
from lucid_pipelines.domain.errors import InputError, LucidError, NotFoundError, StateError
from lucid_pipelines.domain.states import Mode, Outcome
from lucid_pipelines.domain.trace import TraceState
from lucid_pipelines.store import ActionState, Store
from lucid_pipelines.traces.conversion import convert
from lucid_pipelines.traces.generator import generate
from tests.support_control.worlds import make_client
from tests.support_models.live import open_system
from tests.support_models.worlds import START, run

A = {"profile_window_s": 300.0, "busy_window_s": 100.0, "capacity": 1}
B = {"profile_max_gpus": 4, "tiny_above": 0.93, "retrain_every_days": 7.0}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("LUCID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    with make_client(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def store(client: Client) -> Store:
    return client.system.store


def now(client: Client) -> datetime:
    return client.system.clock.now()


def put(client: Client, values: dict[str, Any], person: str = "ada") -> int:
    action = tuned.propose(client.system.store, values, policy="lucid", why="it won", now=now(client), sweep="abc")
    return tuned.apply(client.system.store, action.action_id, person=person, now=now(client)).action_id


def window_s(client: Client) -> float:
    policy = build_policy(client.settings, client.system.store, client.system.clock)
    assert policy.profiling is not None
    return policy.profiling.profile_window_s


def test_a_person_puts_settings_in_force_and_takes_them_back_to_the_defaults(client: Client, store: Store) -> None:
    default_s = window_s(client)
    first = put(client, A)
    present = tuned.applied(store)
    assert (dict(present.values), present.action_id, present.person, present.sweep) == (A, first, "ada", "abc")
    assert window_s(client) == 300.0
    put(client, B, "bob")
    assert (window_s(client), tuned.retrain_every_days(store)) == (default_s, 7.0)

    tuned.revert(store, person="ada", why="worse", now=now(client))
    assert dict(tuned.applied(store).values) == A
    tuned.revert(store, person="ada", why="worse still", now=now(client))
    assert not tuned.applied(store).values and window_s(client) == default_s
    with pytest.raises(StateError, match="no tuned settings are applied"):
        tuned.revert(store, person="ada", why="again", now=now(client))

    put(client, A)
    history = store.actions.find(kind=tuned.KIND)
    assert [action.state for action in history] == [ActionState.EXECUTED] * 5
    assert [action.person for action in history] == ["ada", "ada", "ada", "bob", "ada"]
    assert len({action.payload["values"].__repr__() for action in history}) == 3


def test_a_proposal_changes_nothing_until_a_person_says_yes(client: Client, store: Store) -> None:
    first = tuned.propose(store, A, policy="lucid", why="it won", now=now(client))
    again = tuned.propose(store, A, policy="lucid", why="it won once more", now=now(client))
    assert first.action_id == again.action_id and not tuned.applied(store).values
    assert tuned.carry_out_approved(store, now(client)) == 0
    store.actions.decide(first.action_id, approve=True, person="ada", now=now(client))
    assert tuned.carry_out_approved(store, now(client)) == 1
    assert dict(tuned.applied(store).values) == A and tuned.carry_out_approved(store, now(client)) == 0

    other = tuned.propose(store, B, policy="lucid", why="it won", now=now(client))
    store.actions.decide(other.action_id, approve=False, person="ada", now=now(client))
    with pytest.raises(StateError, match="rejected"):
        tuned.apply(store, other.action_id, person="ada", now=now(client))
    restart, _ = store.actions.propose("restart", "j", Mode.APPROVE, {}, why="w", now=now(client))
    with pytest.raises(StateError, match="not tuned_settings"):
        tuned.apply(store, restart.action_id, person="ada", now=now(client))


def test_a_crash_half_way_is_mended_by_doing_it_again(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = tuned.propose(store, A, policy="lucid", why="it won", now=now(client))
    for name in ("set", "executed"):
        target = store.meta if name == "set" else store.actions
        with monkeypatch.context() as patch:
            patch.setattr(type(target), name, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                tuned.apply(store, action.action_id, person="ada", now=now(client))
    assert tuned.carry_out_approved(store, now(client)) == 1
    assert dict(tuned.applied(store).values) == A
    assert store.actions.get(action.action_id).state is ActionState.EXECUTED


def test_what_was_approved_too_late_does_not_undo_what_is_newer(client: Client, store: Store) -> None:
    old = tuned.propose(store, A, policy="lucid", why="it won", now=now(client))
    put(client, B)
    done = tuned.apply(store, old.action_id, person="ada", now=now(client))
    assert done.state is ActionState.FAILED and dict(tuned.applied(store).values) == B


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"profile_windows": 3.0}, "did you mean 'profile_window_s'"),
        ({"profile_window_s": -1.0}, "must be above 0"),
        ({"tiny_above": 0.8, "medium_above": 0.9}, "medium_above ≤ tiny_above"),
    ],
)
def test_settings_that_cannot_be_used_are_never_proposed(client: Client, values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tuned.propose(client.system.store, values, policy="lucid", why="w", now=now(client))


def test_settings_that_no_longer_fit_are_left_out_and_counted(client: Client, store: Store) -> None:
    put(client, A)
    row = store.meta.get("tuner.applied")
    store.meta.set("tuner.applied", {**row, "values": {"profile_window_s": -5.0}}, now=now(client))
    assert window_s(client) > 0
    assert store.counters.all("tuned") == {"tuned_settings_refused": 1}


def lucid(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_command_line_applies_a_report(client: Client, tmp_path: Path) -> None:
    report = tmp_path / "tuned_settings.json"
    report.write_text(json.dumps({"sweep_id": "abc", "recommended": A, "reason": "it won"}))
    done = lucid("tuner", "apply", "--from", str(report), "--as", "ada")
    assert (done["state"], done["person"], done["values"]) == ("executed", "ada", A)
    shown = lucid("tuner", "show")
    assert (shown["in_force"], shown["person"], shown["sweep"]) == (A, "ada", "abc")
    assert lucid("tuner", "revert", "--as", "bob", "--why", "worse")["values"] == {}
    assert lucid("tuner", "show")["in_force"] == {}
    assert "defaults are" in CliRunner().invoke(app, ["tuner", "show"]).output

    wrong = {
        "": "cannot be read",
        "[]": "no report",
        '{"sweep_id": "x", "recommended": null, "reason": "nothing won"}': "nothing won",
        '{"sweep_id": "x", "recommended": {"capacity": "2; rm -rf /"}}': "settings are numbers",
    }
    for text, message in wrong.items():
        report.write_text(text)
        result = CliRunner().invoke(app, ["tuner", "apply", "--from", str(report)])
        assert isinstance(result.exception, LucidError) and message in str(result.exception)
    result = CliRunner().invoke(app, ["tuner", "apply", "--from", str(tmp_path / "tuned_setting.json")])
    assert isinstance(result.exception, NotFoundError) and "did you mean 'tuned_settings.json'" in str(result.exception)
    result = CliRunner().invoke(app, ["tuner", "apply"])
    assert isinstance(result.exception, NotFoundError)


def test_own_history_becomes_a_trace() -> None:
    first = run(1, at_h=1, run_s=100.0, outcome=Outcome.FAILED_USER)
    second = run(2, job_id="j1", attempt_id="a1-2", number=2, at_h=1, run_s=50.0)
    (job,) = trace_of([first, second])
    assert (job.duration_s, job.attempts, job.state) == (150.0, 2, TraceState.COMPLETED)
    assert job.submit_s == (START + timedelta(hours=1)).timestamp()


def test_a_young_cluster_is_not_tuned_and_says_why(tmp_path: Path) -> None:
    client, system, _ = open_system(tmp_path / "home", START + timedelta(days=9))
    with client:
        assert sweep_own_history(system, TunerPlan()) == "nothing ran here in that time"
        system.store.history.add([run(i, at_h=float(i), vc="vision") for i in range(60)])
        assert "50 are needed" in str(sweep_own_history(system, TunerPlan()))
        assert propose_newest(system) == (None, None)


@pytest.mark.slow
def test_own_history_is_swept_and_proposed(tmp_path: Path) -> None:
    client, system, _ = open_system(tmp_path / "home", START + timedelta(days=11))
    with client:
        rows = [run(i, at_h=i / 4, run_s=4_000.0, vc="vision", gpus=1 + i % 4, user=f"u{i % 5}") for i in range(900)]
        system.store.history.add([row for row in rows if row.ended_at < system.clock.now()])
        report = sweep_own_history(system, TunerPlan(trials=3, unseen_days=3.0))
        assert not isinstance(report, str) and len(report.sweep.trials) == 4
        again = sweep_own_history(system, TunerPlan(trials=3, unseen_days=3.0))
        assert not isinstance(again, str) and again.sweep.replayed == 0, "what is known is not replayed again"
        document, action = propose_newest(system)
        assert document is not None and document["sweep_id"] == report.sweep_id
        assert (action is None) == (report.recommended is None)


def test_the_command_line_tunes_a_trace_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = generate(3, jobs=240, days=4, vcs=1)
    convert(trace, tmp_path / "trace.csv")
    options = ["--trials", "2", "--search", "capacity,profile_window_s", "--strategy", "random", "--seeds", "1"]
    arguments = ["tune", "trace.csv", *options, "--pieces", "1", "--processes", "1"]
    first = lucid(*arguments)
    assert len(first["trials"]) == 3 and first["replays"]["resumed"] == 0
    again = lucid(*arguments)
    assert again["replays"]["made"] == 0 and again["trials"] == first["trials"]
    assert (tmp_path / "lucid-tuning" / "report.md").read_text().startswith("# Tuning on trace.csv")
    result = CliRunner().invoke(app, ["tune", "trace.csv", "--search", "capcity"])
    assert isinstance(result.exception, InputError) and "did you mean 'capacity'" in str(result.exception)
