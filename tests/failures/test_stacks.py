"""Failures of many stacks, in generated logs with every quirk of form."""

from pathlib import Path

import pytest

from tests.support_failures import worlds
from tests.support_failures.batches import ENDINGS, FAULTS, QUIRKS
from tests.support_failures.model import Fault
from tests.support_failures.reading import diagnosed

NOT_TOLD = {
    "mpi_version_mix": "the only telling line calls itself ignored",
    "tokenizer_spm": "a ValueError about a package that the job does not have: called a bug of the script",
    "tracking_server_down": "a person is asked before a restart when a service outside the cluster did not answer",
}
"""What is known not to be right, and why. None of it restarts anything."""


def _case(fault: Fault) -> object:
    why = NOT_TOLD.get(fault.name)
    # A wrong answer is expected, not an error of another kind; a right one must be noticed.
    marks = [] if why is None else [pytest.mark.xfail(reason=why, raises=AssertionError, strict=True)]
    return pytest.param(fault, id=fault.name, marks=marks)


@pytest.mark.parametrize("fault", [_case(fault) for fault in FAULTS])
def test_the_culprit_is_found_and_classified(fault: Fault, tmp_path: Path) -> None:
    quirks = QUIRKS[FAULTS.index(fault) % len(QUIRKS)]
    case = worlds.build(fault, 1, quirks=quirks)
    found = diagnosed(case.data, tmp_path).to_json()
    assert case.span is not None and isinstance(found["root_line"], int), found
    assert case.span[0] <= found["root_line"] <= case.span[1], (case.span, found["root_line"], found["root_text"])
    assert found["category"] == case.category, (found["rule"], found["root_text"])
    assert found["component"] in (case.component, *case.components)
    assert found["restart"] == case.restart


@pytest.mark.parametrize("name", NOT_TOLD)
def test_what_is_not_told_restarts_nothing(name: str, tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    assert diagnosed(worlds.build(fault, 1).data, tmp_path).to_json()["restart"] is False


@pytest.mark.parametrize("kind", worlds.TRAPS)
@pytest.mark.parametrize("seed", range(3))
def test_traps_blame_nobody(kind: str, seed: int, tmp_path: Path) -> None:
    found = diagnosed(worlds.trap(kind, seed).data, tmp_path).to_json()
    assert found["category"] is None
    assert found["restart"] is False


@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_without_blame_blames_nobody(name: str, tmp_path: Path) -> None:
    found = diagnosed(ENDINGS[name](), tmp_path).to_json()
    assert found["category"] is None, (found["rule"], found["root_text"])
    assert found["restart"] is False


def test_there_are_enough_families_to_speak_of_other_stacks() -> None:
    assert len(FAULTS) >= 150
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
