"""Model files: whole or refused. The registry: one truth about what is in service, whatever is killed when."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.models.artefacts import ArtefactError, ModelKind, Registry, Trained, describe, seal, unseal
from lucid_pipelines.models.artefacts.document import data_sha256, golden_matrix, read_matrix, with_evaluation
from tests.support_processes import ended, start

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def double(inputs: Any) -> np.ndarray:
    return 2.0 * read_matrix(inputs).sum(axis=1)


def document(factor: float = 2.0, as_of: datetime | None = AT) -> dict[str, Any]:
    inputs = golden_matrix(np.arange(12.0).reshape(4, 3))
    return seal(
        ModelKind.DURATION,
        {"factor": factor},
        Trained(7, "ab" * 32, as_of, "a test", {"no_gpu": 2}, {"bags": 3}),
        golden_inputs=inputs,
        golden_outputs=factor * read_matrix(inputs).sum(axis=1),
        created_at=AT,
    )


def test_a_sealed_model_says_what_it_is() -> None:
    header = unseal(json.loads(json.dumps(document())), ModelKind.DURATION, double)
    assert header.version.startswith("20260501T120000Z-")
    assert header.trained.rows == 7
    assert header.trained.as_of == AT
    assert header.trained.left_out == {"no_gpu": 2}
    assert {"numpy", "interpret-core", "scikit-learn"} <= set(header.packages)
    assert document() == document()


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d["model"].__setitem__("factor", 3.0),
        lambda d: d["goldens"]["outputs"].__setitem__(0, 1e9),
        lambda d: d["trained"].__setitem__("data_sha256", "cd" * 32),
        lambda d: d["packages"].clear(),
        lambda d: d.pop("goldens"),
        lambda d: d.pop("digest"),
        lambda d: d.__setitem__("format", "lucid-model/99"),
        lambda d: d.__setitem__("kind", "weather"),
    ],
)
def test_a_changed_file_is_refused(damage: Callable[[dict[str, Any]], object]) -> None:
    changed = document()
    damage(changed)
    with pytest.raises(ArtefactError):
        unseal(changed, ModelKind.DURATION, double)


def test_a_reader_that_computes_something_else_is_refused() -> None:
    with pytest.raises(ArtefactError, match=r"no longer gives its golden answers.*made with.*differ by 0\.01"):
        unseal(document(), ModelKind.DURATION, lambda inputs: double(inputs) + 0.01)
    with pytest.raises(ArtefactError, match="no longer gives its golden answers"):
        unseal(document(), ModelKind.DURATION, lambda inputs: double(inputs) * np.nan)
    with pytest.raises(ArtefactError, match="cannot be scored"):
        unseal(document(), ModelKind.DURATION, lambda inputs: {}["nothing"])
    with pytest.raises(ArtefactError, match="do not fit"):
        unseal(document(), ModelKind.DURATION, lambda inputs: double(inputs)[:2])
    with pytest.raises(ArtefactError, match="a packing model is needed"):
        unseal(document(), ModelKind.PACKING, double)


def test_missing_values_survive_and_numbers_keep_every_bit() -> None:
    matrix = np.array([[0.1 + 0.2, np.nan], [1e-300, -0.0]])
    back = read_matrix(json.loads(json.dumps(golden_matrix(matrix))))
    assert np.array_equal(back, matrix, equal_nan=True)
    assert data_sha256(matrix) == data_sha256(back)
    assert data_sha256(matrix) != data_sha256(matrix.T)


def test_an_evaluation_makes_another_version_of_the_same_tables() -> None:
    judged = with_evaluation(document(), {"promote": True})
    assert judged["version"] != document()["version"]
    assert judged["model"] == document()["model"]
    assert describe(judged).metrics["evaluation"] == {"promote": True}


def test_promotion_and_rollback(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    kind = ModelKind.DURATION
    assert registry.in_service(kind) is None
    with pytest.raises(NotFoundError, match="no duration model is in service"):
        registry.read(kind)
    first, second, third = (registry.keep(document(factor)) for factor in (1.0, 2.0, 3.0))
    assert registry.keep(document(1.0)) == first
    assert len(registry.entries(kind)) == 3
    assert registry.in_service(kind) is None
    for version in (first, second, third):
        registry.promote(kind, version, who="ada", why="better")
    assert registry.promote(kind, third, who="bob", why="again").who == "ada"
    assert registry.rollback(kind, who="bob", why="worse").version == second
    assert registry.rollback(kind, who="bob", why="worse").version == first
    with pytest.raises(StateError, match="no earlier duration model"):
        registry.rollback(kind, who="bob", why="worse")
    registry.promote(kind, third, who="ada", why="mended")
    assert registry.rollback(kind, who="bob", why="no").version == first
    assert registry.in_service(ModelKind.PACKING) is None
    assert [c.action for c in registry.history(kind)] == ["promote"] * 3 + ["rollback"] * 2 + ["promote", "rollback"]


def test_names_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "models")
    kept = registry.keep(document())
    for name in ("../../etc/passwd", "/etc/passwd", ".lock", "", "a\0b", "a/b"):
        with pytest.raises(InputError):
            registry.read(ModelKind.DURATION, name or "\n")
    with pytest.raises(NotFoundError, match=f"'other'; kept: {kept}"):
        registry.read(ModelKind.DURATION, "other")
    with pytest.raises(NotFoundError, match="did you mean"):
        registry.promote(ModelKind.DURATION, kept[:-1] + "x", who="ada", why="typo")


def test_a_damaged_file_is_listed_with_its_fault_and_never_promoted(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    good, bad = registry.keep(document(1.0)), registry.keep(document(2.0))
    path = tmp_path / "duration" / f"{bad}.json"
    path.write_text(path.read_text()[:-40])
    faults = {entry.version: entry.fault for entry in registry.entries(ModelKind.DURATION)}
    assert faults[good] is None
    assert "cannot be read" in (faults[bad] or "")
    with pytest.raises(ArtefactError):
        registry.promote(ModelKind.DURATION, bad, who="ada", why="look")
    path.write_text("[]")
    with pytest.raises(ArtefactError, match="no JSON object"):
        registry.read(ModelKind.DURATION, bad)


def test_a_torn_last_line_was_never_written(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    first, second = registry.keep(document(1.0)), registry.keep(document(2.0))
    registry.promote(ModelKind.DURATION, first, who="ada", why="first")
    journal = tmp_path / "duration" / "changes.jsonl"
    for cut in range(1, 60, 7):
        whole = journal.read_bytes()
        with journal.open("ab") as file:
            file.write(whole.splitlines(keepends=True)[0][:cut])
        assert registry.in_service(ModelKind.DURATION) == first
        journal.write_bytes(whole)
    with journal.open("ab") as file:
        file.write(b'{"action": "promote", "ver')
    registry.promote(ModelKind.DURATION, second, who="bob", why="second")
    assert [c.version for c in registry.history(ModelKind.DURATION)] == [first, second]
    journal.write_bytes(journal.read_bytes() + b"nonsense\n")
    with pytest.raises(ArtefactError, match="journal of models is damaged"):
        registry.in_service(ModelKind.DURATION)


def test_many_promote_at_once(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    versions = [registry.keep(document(float(n))) for n in range(8)]
    threads = [
        threading.Thread(target=registry.promote, args=(ModelKind.DURATION, v), kwargs={"who": v, "why": "race"})
        for v in versions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = registry.history(ModelKind.DURATION)
    assert sorted(c.version for c in history) == sorted(versions)
    assert [c.previous for c in history] == [None, *(c.version for c in history[:-1])]


PROMOTER = """
import sys
from pathlib import Path
from lucid_pipelines.models.artefacts import ModelKind, Registry
registry = Registry(Path(sys.argv[1]))
versions = registry.versions(ModelKind.DURATION)
print("ready", flush=True)
while True:
    for version in versions:
        registry.promote(ModelKind.DURATION, version, who="loop", why="x" * 500)
"""


@pytest.mark.chaos
def test_a_killed_promoter_leaves_one_truth(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    versions = {registry.keep(document(float(n))) for n in range(3)}
    for round_number in range(6):
        process = start(PROMOTER, tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        before = len(registry.history(ModelKind.DURATION))
        while len(registry.history(ModelKind.DURATION)) < before + 3 + round_number:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        history = registry.history(ModelKind.DURATION)
        assert registry.in_service(ModelKind.DURATION) in versions
        assert [c.previous for c in history][1:] == [c.version for c in history[:-1]]
        registry.promote(ModelKind.DURATION, min(versions), who="after", why="the kill")
        assert registry.in_service(ModelKind.DURATION) == min(versions)


def test_what_was_judged_beside_another_model_does_not_take_its_place(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    kind = ModelKind.DURATION
    first, second, third = (registry.keep(document(factor)) for factor in (1.0, 2.0, 3.0))
    registry.promote(kind, first, who="ada", why="the first", instead_of=None)
    with pytest.raises(StateError, match=f"judged beside no model, but {first} is in service now"):
        registry.promote(kind, second, who="engine", why="better than nothing", instead_of=None)
    registry.promote(kind, second, who="ada", why="by hand")
    with pytest.raises(StateError, match=f"but {second} is in service now"):
        registry.promote(kind, third, who="engine", why="better than the first", instead_of=first)
    assert registry.in_service(kind) == second


def test_keeping_a_damaged_model_again_mends_it(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    version = registry.keep(document())
    path = tmp_path / "duration" / f"{version}.json"
    for damage in (b"", path.read_bytes()[:100], b"[" * 100_000, bytes(range(256)), b"{}"):
        path.write_bytes(damage)
        with pytest.raises(ArtefactError):
            registry.promote(ModelKind.DURATION, version, who="ada", why="look")
        assert registry.entries(ModelKind.DURATION)[0].fault
        assert registry.keep(document()) == version
        assert registry.entries(ModelKind.DURATION)[0].fault is None


def test_a_model_of_a_newer_program_says_what_to_do(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    version = registry.keep(document())
    path = tmp_path / "duration" / f"{version}.json"
    path.write_text(path.read_text().replace("lucid-model/1", "lucid-model/2"))
    with pytest.raises(ArtefactError, match=r"'lucid-model/2'; upgrade lucid-pipelines, or train the model again"):
        registry.promote(ModelKind.DURATION, version, who="ada", why="look")


def test_a_rollback_to_a_damaged_model_is_refused(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    first, second = registry.keep(document(1.0)), registry.keep(document(2.0))
    for version in (first, second):
        registry.promote(ModelKind.DURATION, version, who="ada", why="better")
    (tmp_path / "duration" / f"{first}.json").write_text("{}")
    with pytest.raises(ArtefactError):
        registry.rollback(ModelKind.DURATION, who="ada", why="worse")
    assert registry.in_service(ModelKind.DURATION) == second


RIVAL = """
import sys
from pathlib import Path
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.models.artefacts import ModelKind, Registry
registry, own = Registry(Path(sys.argv[1])), sys.argv[2:]
kind = ModelKind.DURATION
for _ in range(15):
    for version in own:
        registry.promote(kind, version, who="rival", why="promote")
    try:
        registry.rollback(kind, who="rival", why="rollback")
    except StateError:
        pass
"""


def test_two_processes_promote_and_roll_back_at_once(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    versions = [registry.keep(document(float(n))) for n in range(4)]
    for rival in [start(RIVAL, tmp_path, *own) for own in (versions[:2], versions[2:])]:
        ended(rival)
    history = registry.history(ModelKind.DURATION)
    assert [c.previous for c in history] == [None, *(c.version for c in history[:-1])], "each saw what was there"
    stack: list[str] = []
    for change in history:
        if change.action == "rollback":
            stack.pop()
            assert change.version == stack[-1], "a rollback undoes the last promotion, whoever made it"
        else:
            stack.append(change.version)
    assert registry.in_service(ModelKind.DURATION) == stack[-1]
