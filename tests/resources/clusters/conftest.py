"""A local cluster for each test; no process may outlive the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.contracts.cluster_contract", "tests.support_clusters.local_harness")

from tests.support_clusters.local_harness import LocalHarness, left_behind  # noqa: E402 - after the rewrite hook


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path)
    yield harness
    harness.close()


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    yield
    assert left_behind() == []
