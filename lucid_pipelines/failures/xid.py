"""NVIDIA Xid codes: the versioned table, and reading them out of kernel lines (R-14)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures.vocabulary import Category, Component

_KERNEL = re.compile(
    r"\bXid\b[ :]*\((?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F:.]+)\)[^:]*: *(?P<code>\d{1,3})\b"
    r"(?:, *(?:pid=(?P<pid>[^,]*))?)?"
)
_LOOSE = re.compile(r"\bxid(?:[ _](?:error|code|event))?[ :=#]+(?P<code>\d{1,3})\b", re.IGNORECASE)
_DENIED = re.compile(r"no xid|xid errors?[ :=]+0\b|without xid", re.IGNORECASE)
_RECOVERY = re.compile(r"GPU recovery action changed.{0,80}?to.{0,12}?\((?P<action>[A-Za-z _-]+)\)", re.IGNORECASE)


class XidPointsTo(StrEnum):
    """Which way one sighting points as evidence."""

    APP = "app"
    GPU = "gpu"
    NVLINK = "nvlink"
    WATCH = "watch"
    NONE = "none"


class XidAction(StrEnum):
    """What NVIDIA says to do first."""

    RESTART_APP = "restart_app"
    IGNORE = "ignore"
    FOLLOW_OTHER = "follow_other"
    RESET = "reset"
    REBOOT = "reboot"
    UPDATE_SOFTWARE = "update_software"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class XidEntry:
    """One code of the table."""

    code: int
    meaning: str
    points_to: XidPointsTo
    action: XidAction
    expires_after: timedelta

    @property
    def component(self) -> Component | None:
        """The hardware that the code accuses; ``None`` when it accuses none."""
        match self.points_to:
            case XidPointsTo.GPU:
                return Component.GPU
            case XidPointsTo.NVLINK:
                return Component.NVLINK
            case _:
                return None

    @property
    def category(self) -> Category | None:
        return Category.INFRASTRUCTURE if self.component is not None else None


@dataclass(frozen=True, slots=True)
class XidTable:
    """All codes of one edition of the catalogue."""

    version: str
    source: str
    app_repeat_limit: int
    entries: dict[int, XidEntry]

    def entry(self, code: int) -> XidEntry | None:
        """``None`` for a code that the catalogue does not have: unknown, not harmless."""
        return self.entries.get(code)


@dataclass(frozen=True, slots=True)
class XidSighting:
    """One Xid in a line of text.

    Attributes:
        pci: bus address without domain punctuation changes, ``None`` when the line gives none.
        recovery_action: what Xid 154 says the GPU needs, in the driver's words.
    """

    code: int
    pci: str | None
    pid: int | None
    recovery_action: str | None = None


@dataclass(frozen=True, slots=True)
class XidReport:
    """An Xid that telemetry or a kernel log saw on a GPU at a known time."""

    code: int
    node: str
    gpu_index: int | None
    seen_at: datetime

    def is_valid(self, table: XidTable, now: datetime) -> bool:
        """Whether it may still count as evidence (R-14: evidence expires)."""
        entry = table.entry(self.code)
        return entry is not None and now - self.seen_at <= entry.expires_after


def find_xid(text: str) -> XidSighting | None:
    """The Xid that a line reports, or ``None``.

    Args:
        text: a kernel line (``NVRM: Xid (PCI:0000:9b:00): 79, pid=…``) or a monitor's (``XID error 79``).
    """
    if "xid" not in text.lower():
        return None
    match = _KERNEL.search(text)
    recovery = _RECOVERY.search(text)
    action = recovery["action"].strip() if recovery else None
    if match:
        pid = (match["pid"] or "").strip("'<> ")
        return XidSighting(int(match["code"]), match["pci"], int(pid) if pid.isdigit() else None, action)
    match = _LOOSE.search(text)
    if match and int(match["code"]) and not _DENIED.search(text):
        return XidSighting(int(match["code"]), None, None, action)
    return None


@lru_cache(maxsize=1)
def load_xids() -> XidTable:
    """The table that is shipped. Raises ``InputError`` when the data file is damaged."""
    text = (files("lucid_pipelines.failures") / "xids.toml").read_text("utf-8")
    try:
        document = tomllib.loads(text)
        entries = {
            int(code): XidEntry(
                int(code),
                str(row["meaning"]),
                XidPointsTo(row["points_to"]),
                XidAction(row["action"]),
                timedelta(hours=float(row["expires_h"])),
            )
            for code, row in document["xid"].items()
        }
        return XidTable(str(document["version"]), str(document["source"]), int(document["app_repeat_limit"]), entries)
    except (tomllib.TOMLDecodeError, KeyError, ValueError) as error:
        raise InputError(f"the Xid table is damaged: {error}") from error
