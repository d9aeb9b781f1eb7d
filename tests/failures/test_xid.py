"""The Xid table and the reading of kernel lines."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.failures.vocabulary import Category, Component
from lucid_pipelines.failures.xid import XidAction, XidPointsTo, XidReport, find_xid, load_xids

NOW = datetime(2025, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "code", "pid"),
    [
        ("NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", 79, None),
        ("kernel: NVRM: Xid (PCI:0000:9b:00): 48, pid=21596, name=python3, Double Bit ECC Error", 48, 21596),
        ("[ 812.1] NVRM: Xid (0000:41:00): 31, Ch 0000000b, MMU Fault", 31, None),
        ("node-problem-detector: XID error 95 reported by GPU 6", 95, None),
    ],
)
def test_an_xid_is_read(text: str, code: int, pid: int | None) -> None:
    sighting = find_xid(text)
    assert sighting is not None
    assert (sighting.code, sighting.pid) == (code, pid)


def test_the_recovery_action_is_kept() -> None:
    sighting = find_xid(
        "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    )
    assert sighting is not None and sighting.recovery_action == "GPU Reset Required"


@pytest.mark.parametrize("text", ["no xid seen", "xid errors: 0", "max_idx 79", "taxid 9606 of the sample", ""])
def test_other_lines_hold_no_xid(text: str) -> None:
    assert find_xid(text) is None


@pytest.mark.parametrize(
    ("code", "points_to", "action", "component"),
    [
        (79, XidPointsTo.GPU, XidAction.REBOOT, Component.GPU),
        (48, XidPointsTo.GPU, XidAction.RESET, Component.GPU),
        (74, XidPointsTo.NVLINK, XidAction.RESET, Component.NVLINK),
        (149, XidPointsTo.NVLINK, XidAction.RESET, Component.NVLINK),
        (31, XidPointsTo.APP, XidAction.RESTART_APP, None),
        (13, XidPointsTo.APP, XidAction.RESTART_APP, None),
        (43, XidPointsTo.APP, XidAction.IGNORE, None),
        (63, XidPointsTo.WATCH, XidAction.IGNORE, None),
        (95, XidPointsTo.GPU, XidAction.RESET, Component.GPU),
        (119, XidPointsTo.GPU, XidAction.RESET, Component.GPU),
        (45, XidPointsTo.APP, XidAction.FOLLOW_OTHER, None),
    ],
)
def test_the_table_says_what_nvidia_says(
    code: int, points_to: XidPointsTo, action: XidAction, component: Component | None
) -> None:
    entry = load_xids().entry(code)
    assert entry is not None
    assert (entry.points_to, entry.action, entry.component) == (points_to, action, component)
    assert entry.category is (Category.INFRASTRUCTURE if component else None)


def test_the_table_names_its_version_and_source_and_an_unknown_code_is_unknown() -> None:
    table = load_xids()
    assert table.version and "NVIDIA" in table.source and len(table.entries) > 100
    assert table.entry(999) is None


def test_evidence_expires() -> None:
    table = load_xids()
    fresh = XidReport(79, "n1", 0, NOW - timedelta(days=6))
    stale = XidReport(79, "n1", 0, NOW - timedelta(days=8))
    app = XidReport(31, "n1", 0, NOW - timedelta(days=2))
    assert fresh.is_valid(table, NOW) and not stale.is_valid(table, NOW) and not app.is_valid(table, NOW)
    assert not XidReport(999, "n1", 0, NOW).is_valid(table, NOW)


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    sighting = find_xid(text)
    assert sighting is None or 0 < sighting.code < 1000


@given(st.text(alphabet="xid Xid(PCI:0123456789abcdef),=#' ", max_size=60))
def test_texts_that_look_like_xids_do_not_break_it(text: str) -> None:
    find_xid("NVRM: " + text)
