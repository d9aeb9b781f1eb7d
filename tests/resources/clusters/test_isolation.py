"""The ledger of reasons against nodes."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import NodeCondition
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.resources.clusters.isolation import IsolationLedger
from tests.support_clusters.local_harness import LocalHarness

OWNERS = st.sampled_from(["ours", "theirs", "somebody"])
GPUS = st.lists(st.integers(0, 3), max_size=3)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Ticking:
    """A clock that a test owns."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@given(st.lists(st.tuples(st.booleans(), OWNERS, GPUS), max_size=12))
@settings(max_examples=60)
def test_only_the_owner_lifts_a_reason(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[bool, str, list[int]]]
) -> None:
    """Against a model: what each owner holds is a set of GPU sets that nobody else changes."""
    ledger = IsolationLedger(tmp_path_factory.mktemp("ledger"), Ticking())
    held: dict[str, set[frozenset[int]]] = {}
    for adds, owner, gpus in acts:
        mine = held.setdefault(owner, set())
        if adds:
            ledger.add("node", gpus, owner, "reason")
            mine.add(frozenset(gpus))
        else:
            ledger.remove("node", gpus, owner)
            if not gpus:
                mine.clear()
            else:
                held[owner] = {s - set(gpus) if s else s for s in mine if not s or s - set(gpus)}
        found: dict[str, set[frozenset[int]]] = {}
        for isolation in ledger.of("node"):
            found.setdefault(isolation.owner, set()).add(frozenset(isolation.gpu_indices))
        assert found == {name: sets for name, sets in held.items() if sets}
    since = [isolation.since for isolation in ledger.of("node")]
    assert since == sorted(since)


def test_a_reworded_reason_keeps_its_date(tmp_path: Path) -> None:
    ledger = IsolationLedger(tmp_path, Ticking())
    ledger.add("node", [1, 0, 1], "ours", "first")
    ledger.add("node", [0, 1], "ours", "second")
    found = ledger.of("node")
    assert [(i.gpu_indices, i.reason, i.since) for i in found] == [((0, 1), "second", NOON + timedelta(seconds=1))]


def test_processes_that_isolate_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_isolate, args=(tmp_path, f"owner-{n}")) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {i.owner for i in IsolationLedger(tmp_path, Ticking()).of("node")} == {f"owner-{n}" for n in range(6)}


@pytest.mark.parametrize("name", ["a/b", "..", "ü x", "node-1"])
def test_any_node_name_has_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    ledger = IsolationLedger(tmp_path / "ledger", Ticking())
    (tmp_path / "ledger").mkdir()
    ledger.add(name, [], "ours", "reason")
    assert [i.owner for i in ledger.of(name)] == ["ours"]
    assert {path.name for path in tmp_path.iterdir()} == {"ledger"}


def test_an_isolation_says_who_and_why(tmp_path: Path) -> None:
    ledger = IsolationLedger(tmp_path, Ticking())
    for owner, reason in (("", "why"), ("who", "")):
        with pytest.raises(InputError):
            ledger.add("node", [], owner, reason)


def test_a_ledger_that_cannot_be_read_makes_its_node_unobserved(harness: LocalHarness) -> None:
    harness.cluster.isolate("node-1", [0], "ours", "reason")
    (harness.root / "cluster" / "isolation" / "node-1.json").write_text("{")
    nodes = {node.name: node for node in harness.cluster.inventory().nodes}
    assert nodes["node-1"].condition is NodeCondition.UNOBSERVED
    assert nodes["node-1"].usable_gpus == ()
    assert nodes["node-2"].condition is NodeCondition.READY
    with pytest.raises(ExternalError, match="mend or remove"):
        harness.cluster.restore("node-1", [], "ours")


def _isolate(folder: Path, owner: str) -> None:
    ledger = IsolationLedger(folder, lambda: datetime.now(UTC))
    for index in range(4):
        ledger.add("node", [index], owner, "reason")
    ledger.remove("node", [0, 1, 2], owner)
