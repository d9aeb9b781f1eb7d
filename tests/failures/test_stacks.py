"""Failures of many stacks, in generated logs with every quirk of form."""

from pathlib import Path

import pytest

from tests.support_failures import worlds
from tests.support_failures.faults_four import ENDINGS
from tests.support_failures.faults_four import FAULTS as FOUR
from tests.support_failures.faults_one import FAULTS as ONE
from tests.support_failures.faults_three import FAULTS as THREE
from tests.support_failures.faults_two import FAULTS as TWO
from tests.support_failures.model import Fault
from tests.support_failures.reading import diagnosed

QUIRKS: tuple[tuple[str, ...], ...] = (
    (),
    ("ranks",),
    ("crlf", "echo_first"),
    ("k8s_ts",),
    ("nonutf8", "glued"),
    ("recovered",),
    ("no_echo",),
)
ALL = (*ONE, *TWO, *THREE, *FOUR)


@pytest.mark.parametrize("fault", ALL, ids=[fault.name for fault in ALL])
def test_the_culprit_is_found_and_classified(fault: Fault, tmp_path: Path) -> None:
    quirks = QUIRKS[ALL.index(fault) % len(QUIRKS)]
    case = worlds.build(fault, 1, quirks=quirks)
    found = diagnosed(case.data, tmp_path).to_json()
    assert case.span is not None and isinstance(found["root_line"], int), found
    assert case.span[0] <= found["root_line"] <= case.span[1], (case.span, found["root_line"], found["root_text"])
    assert found["category"] == case.category, (found["rule"], found["root_text"])
    assert found["component"] in (case.component, *case.components)
    assert found["restart"] == case.restart


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
    assert len(ALL) >= 150
    assert len({fault.name for fault in ALL}) == len(ALL)
