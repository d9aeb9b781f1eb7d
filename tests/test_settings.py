"""One file and the environment become one typed value, or one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.settings import load_settings


def write(folder: Path, text: str) -> Path:
    path = folder / "lucid.yaml"
    path.write_text(text)
    return folder


def test_defaults_need_no_file(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, environ={})
    assert settings.state_url == f"sqlite:///{tmp_path / 'state.db'}"
    assert [(node.name, node.gpus) for node in settings.cluster.nodes] == [("node-1", 4), ("node-2", 4)]
    assert settings.default_vc == "vision"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    write(tmp_path, "scheduling: {policy: fifo, window_s: 30}\nmodes: {restart: live}\n")
    settings = load_settings(
        tmp_path, environ={"LUCID__SCHEDULING__WINDOW_S": "90", "LUCID__MODES__ISOLATE": "approve"}
    )
    assert (settings.scheduling.policy, settings.scheduling.window_s) == ("fifo", 90)
    assert (settings.modes.restart, settings.modes.isolate) == (Mode.LIVE, Mode.APPROVE)


def test_off_without_quotes_is_off_though_yaml_reads_it_as_false(tmp_path: Path) -> None:
    write(tmp_path, "modes: {adopt: off, restart: 'off', isolate: live}\n")
    modes = load_settings(tmp_path, environ={}).modes
    assert (modes.adopt, modes.restart, modes.isolate) == (Mode.OFF, Mode.OFF, Mode.LIVE)


def test_a_file_beside_the_home_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, "dagster: {port: 4000}\n")
    assert load_settings(tmp_path / ".lucid", environ={}).dagster.port == 4000


def test_relative_paths_are_meant_from_the_folder_of_the_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        "replay: {trace: 'traces/a.tar.gz::b.csv', cluster: c.yaml, workloads: w.csv, pairs: /p.csv}\n"
        "models: {pairs: p.csv, profiles: ~/q.csv}\n"
        "cluster: {ssh: {known_hosts: [hosts, /etc/hosts]}}\n",
    )
    settings = load_settings(tmp_path / ".lucid", environ={})
    replay = settings.replay
    assert replay.trace == f"{tmp_path}/traces/a.tar.gz::b.csv"
    assert (replay.cluster, replay.workloads) == (tmp_path / "c.yaml", f"{tmp_path}/w.csv")
    assert (replay.pairs, replay.forecast) == (Path("/p.csv"), None)
    assert (settings.models.pairs, settings.models.profiles) == (tmp_path / "p.csv", Path.home() / "q.csv")
    assert settings.cluster.ssh.known_hosts == (tmp_path / "hosts", Path("/etc/hosts"))


def test_relative_paths_without_a_file_are_meant_from_beside_the_home_folder(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / ".lucid", environ={"LUCID__REPLAY__TRACE": "trace.csv"})
    assert (settings.replay.trace, settings.replay.workloads) == (f"{tmp_path}/trace.csv", "generated")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedulling: {}", "did you mean 'scheduling'?"),
        ("scheduling: {polcy: fifo}", "unknown key 'scheduling.polcy' (did you mean 'policy'?)"),
        ("cluster: {nodes: [{name: a, gpu: 4}]}", "did you mean 'gpus'?"),
        ("cluster: {nodes: []}", "at least one node"),
        ("cluster: {nodes: [{name: a, gpus: 1}, {name: a, gpus: 1}]}", "names must differ"),
        ("cluster: {default_vc: nowhere}", "has no node"),
        ("dagster: {port: 0}", "dagster.port"),
        ("dagster: {port: many}", "dagster.port"),
        ("modes: {restart: maybe}", "modes.restart"),
        ("profiling: {window_s: .inf}", "profiling.window_s"),
        ("packing: {off_below_jobs: .nan}", "packing.off_below_jobs"),
        ("profiling: {borrow_above_jobs: 1, return_below_jobs: 5}", "at most borrow_above_jobs + 1"),
        ("- a list", "holds sections"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_settings(write(tmp_path, text), environ={})
    assert message in str(caught.value)


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_settings(tmp_path, environ={"LUCID_CONFIG": str(tmp_path / "missing.yaml")})
