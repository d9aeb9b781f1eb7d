"""A local cluster for each test; no process may outlive the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.contracts.cluster_contract", "tests.support_clusters.local_harness")

from tests.support_clusters.local_harness import LocalHarness, left_behind  # noqa: E402 - after the rewrite hook

_BY_THE_WRAPPER_ALONE = {
    "test_a_signal_is_not_an_exit_code",
    "test_arguments_and_environment_arrive_unchanged",
    "test_a_command_that_cannot_run_says_why",
    "test_declared_facts_arrive_with_the_record",
    "test_what_a_job_declares_is_cut_to_size",
    "test_a_job_that_ignores_term_is_killed_after_the_grace_period",
    "test_a_second_stop_can_shorten_the_grace_period",
    "test_stop_reaches_every_process_of_the_job",
    "test_an_attempt_ends_with_its_main_process_and_leaves_nothing",
    "test_a_daemon_without_its_environment_is_found_too",
    "test_much_output_arrives_whole",
}
"""What the same wrapper does on every kind of cluster: `make test` looks at it on the local one only."""
_DELAYS_LEFT_OUT = ("[0.0]", "[0.004]", "[0.02]", "[0.035]", "[0.06]")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = getattr(item, "originalname", item.name)
        if {"ssh", "slurm"} & {mark.name for mark in item.iter_markers()}:
            is_repeated = name == "test_a_launcher_killed_on_the_way_costs_nothing"
            if name in _BY_THE_WRAPPER_ALONE or (is_repeated and item.name.endswith(_DELAYS_LEFT_OUT)):
                item.add_marker(pytest.mark.long)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path)
    yield harness
    harness.close()


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    yield
    assert left_behind() == []
