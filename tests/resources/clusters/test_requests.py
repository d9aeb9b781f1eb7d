"""From a launch request to a wrapper's spec, and the folders that it names."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError, StateError
from lucid_pipelines.ports import LaunchRequest, Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import Layout, checked_id
from lucid_pipelines.resources.clusters.nodes import LocalNode, nodes_by_name
from lucid_pipelines.resources.clusters.request import WrapperOptions, inherited_environment, wrapper_spec
from tests.support_clusters.local_harness import NODES, LocalHarness

BY_NAME = {node.name: node for node in NODES}
OPTIONS = WrapperOptions(base_env={"PATH": "/bin"})
REQUEST = LaunchRequest(
    attempt_id="j-a1",
    job_id="j",
    attempt_number=1,
    command=("true",),
    env={},
    placement=Placement.of({"node-1": [2]}),
    job_dir=Path("/jobs/j"),
    code_dir=Path("/jobs/j/code"),
    workdir=".",
    grace_s=1.0,
)


@given(st.text(max_size=30))
def test_a_working_directory_never_leaves_the_code(workdir: str) -> None:
    try:
        spec = wrapper_spec(replace(REQUEST, workdir=workdir), BY_NAME, OPTIONS)
    except InputError:
        return
    assert Path(os.path.normpath(spec["cwd"])).is_relative_to(REQUEST.code_dir)


@given(
    st.lists(st.text(), min_size=1, max_size=5),
    st.dictionaries(st.text(min_size=1), st.text(), max_size=5),
)
def test_a_spec_survives_its_file(command: list[str], env: dict[str, str]) -> None:
    try:
        spec = wrapper_spec(replace(REQUEST, command=tuple(command), env=env), BY_NAME, OPTIONS)
    except InputError as error:
        bad = [*command, *env, *env.values()]
        assert "\0" in "".join(bad) or not command[0] or any("=" in name for name in env), error
        return
    assert json.loads(json.dumps(spec)) == spec
    assert (spec["command"], spec["env"]) == (command, env)


@pytest.mark.parametrize(
    ("placement", "devices"),
    [
        ({"node-1": [0]}, "0"),
        ({"node-1": [3, 1]}, "1,3"),
        ({"node-2": [0, 1]}, "0,1"),
        ({"node-1": [2, 3], "node-2": [0, 1]}, "2,3,4,5"),
    ],
)
def test_a_job_sees_its_own_gpus(placement: dict[str, list[int]], devices: str) -> None:
    request = replace(REQUEST, placement=Placement.of(placement))
    spec = wrapper_spec(request, BY_NAME, OPTIONS)
    assert spec["cuda_visible_devices"] == devices
    assert Placement.from_json(spec["placement"]) == request.placement
    assert len(spec["gpus"]) == request.placement.gpu_count


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ({"gpu_util": 5.0}, "did you mean 'gpu_util_pct'"),
        ({"gpu_util_pct": 101.0}, "101"),
        ({"memory_used_mib": float("nan")}, "nan"),
    ],
)
def test_a_declared_load_is_checked(load: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        wrapper_spec(replace(REQUEST, declared_load=load), BY_NAME, OPTIONS)


def test_names_that_do_not_exist_are_answered_with_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="did you mean 'node-1'"):
        wrapper_spec(replace(REQUEST, placement=Placement.of({"node1": [0]})), BY_NAME, OPTIONS)
    with pytest.raises(NotFoundError, match=r"\[9\]"):
        wrapper_spec(replace(REQUEST, placement=Placement.of({"node-1": [9]})), BY_NAME, OPTIONS)


def test_nodes_have_names_of_their_own() -> None:
    with pytest.raises(InputError, match="twice: 'a'"):
        nodes_by_name([LocalNode.virtual("a", 1), LocalNode.virtual("a", 2)])
    with pytest.raises(InputError, match="at least one"):
        nodes_by_name([])


def test_credentials_of_the_control_plane_do_not_reach_jobs(harness: LocalHarness) -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LC_ALL": "C",
        "https_proxy": "http://p",
        "LUCID_TEST_PG_URL": "postgresql://user:secret@host/db",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "GITHUB_TOKEN": "secret",
        "DAGSTER_HOME": "/d",
        "PYTHONPATH": "/p",
    }
    assert set(inherited_environment(environ)) == {"PATH", "HOME", "LC_ALL", "https_proxy"}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "ü", "a b", "a\n", "x" * 201])
def test_an_attempt_id_is_fit_to_be_a_name(name: str) -> None:
    with pytest.raises(InputError):
        checked_id(name)


def test_a_moved_home_keeps_its_attempts(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path / "home")
    attempt = harness.start("exit 3")
    record = harness.wait_end(attempt)
    (tmp_path / "home").rename(tmp_path / "elsewhere")
    assert LocalHarness(tmp_path / "elsewhere").see(attempt).exit == record


def test_jobs_may_lie_on_another_disk(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> None:
    job_dir = tmp_path_factory.mktemp("elsewhere")
    attempt = harness.start("exit 3", job_dir=job_dir)
    assert harness.wait_end(attempt).exit_code == 3
    assert (job_dir / "attempts" / "1" / wrapper.EXIT).exists()


def test_two_attempts_cannot_share_a_folder(harness: LocalHarness) -> None:
    first = harness.shell("exit 3")
    harness.cluster.launch(first)
    with pytest.raises(StateError, match="number of its own"):
        harness.cluster.launch(replace(first, attempt_id="another"))
    harness.wait_end(first.attempt_id)


def test_the_second_attempt_of_a_job_has_its_own_folder_and_the_same_outputs(harness: LocalHarness) -> None:
    first = harness.shell('echo $LUCID_ATTEMPT_NUMBER >> "$LUCID_CHECKPOINT_DIR/n"; cat "$LUCID_CHECKPOINT_DIR/n"')
    second = replace(first, attempt_id=first.attempt_id[:-1] + "2", attempt_number=2)
    for request in (first, second):
        harness.cluster.launch(request)
        harness.wait_end(request.attempt_id)
    assert harness.log(second.attempt_id) == b"1\n2\n"


def test_a_root_that_has_gone_away_is_no_evidence(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30")
    root = harness.root / "cluster"
    aside = root.rename(root.with_name("unmounted"))
    seen = harness.cluster.poll([attempt, "never-launched"])
    assert {observation.sight for observation in seen.values()} == {Sight.UNOBSERVED}
    with pytest.raises(ExternalError):
        harness.cluster.read_log(attempt, 0, 10)
    with pytest.raises(ExternalError):
        harness.cluster.launch(harness.shell("true"))
    aside.rename(root)
    assert harness.see(attempt).sight is Sight.RUNNING
    harness.cluster.fence(attempt)


def test_an_attempt_whose_folder_is_gone_is_not_started_anew(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30")
    with harness.blind(attempt), pytest.raises(ExternalError, match="cannot be placed"):
        harness.cluster.launch(harness.requests[attempt])
    assert harness.see(attempt).sight is Sight.RUNNING
    harness.cluster.fence(attempt)


def test_a_spec_is_readable_by_its_owner_only(harness: LocalHarness) -> None:
    attempt = harness.start("true", env={"TOKEN": "secret"})
    assert (harness.folder(attempt) / wrapper.SPEC).stat().st_mode & 0o077 == 0
    harness.wait_end(attempt)


def test_the_layout_needs_a_place(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        Layout(blocker / "cluster").create()
    with pytest.raises(ExternalError, match="cannot be used"):
        LocalHarness(blocker)
