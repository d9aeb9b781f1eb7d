"""What a log that says it ended well, or on purpose, leaves of the errors beside it."""

from __future__ import annotations

import re

from lucid_pipelines.failures.records import RecordKind
from lucid_pipelines.failures.scan import Judged
from lucid_pipelines.failures.verdicts import CLEAN_EXIT
from lucid_pipelines.failures.vocabulary import Component, Role


def is_real_after_success(item: Judged) -> bool:
    """A traceback of the main program that names more than a broken connection."""
    if item.record.kind is not RecordKind.TRACEBACK or item.role is not Role.ROOT:
        return False
    if re.search(r"atexit|Exception (in thread|ignored)|__del__|Error in sys\.excepthook", item.record.lead):
        return False
    own = [frame for frame in item.record.frames if frame.is_own_code]
    at_exit = any(
        re.search(r"atexit|__del__|shutdown|finalize|_exit_function|cleanup", f.function or "")
        for f in item.record.frames
    )
    return bool(own) and not at_exit


def ends_on_purpose(alive: list[Judged], exit_: Judged) -> bool:
    """An interrupted program often ends itself with status 0: that it was interrupted tells more."""
    return any(item.role is Role.CANCEL and item.position < exit_.position for item in alive)


def is_of_another(item: Judged, exit_: Judged) -> bool:
    """One process that ended well says nothing of a part of the hardware that another one lost."""
    family = item.verdict.family
    is_hardware = family is not None and family.component in (Component.GPU, Component.NVLINK)
    return exit_.verdict.rule_id == CLEAN_EXIT and item.role is Role.ROOT and is_hardware and not item.verdict.soft


def outweighs(item: Judged, remark: Judged) -> bool:
    """A line with such words may be a remark, an error after it is not; a remark on hardware yields to its own kind."""
    if item.verdict.soft:
        return False
    family = remark.verdict.family
    is_hardware = family is not None and family.component in (Component.GPU, Component.NVLINK)
    return not is_hardware or item.verdict.family_name == remark.verdict.family_name
