"""Timestamps of log lines: the dozen ways in which training logs write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

_DAY_S = 86_400.0
_LEAP_YEAR = 2000
_SEARCH_CHARS = 160
_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip


class TimeKind(StrEnum):
    """How much of a date a line gives."""

    FULL = "full"
    NO_YEAR = "no_year"
    CLOCK_ONLY = "clock_only"


@dataclass(frozen=True, slots=True)
class LineTime:
    """When a line was written, by the clock of whoever wrote it.

    Attributes:
        at_s: seconds; since 1970 for ``FULL``, since the start of an unnamed leap year for ``NO_YEAR``,
            since midnight for ``CLOCK_ONLY``. A time without a zone is taken as UTC: only differences
            within one log are to be trusted.
        kind: what ``at_s`` counts from.
        span: where it stands in the text that was searched.
    """

    at_s: float
    kind: TimeKind
    span: tuple[int, int] = (0, 0)

    def at(self) -> datetime | None:
        """Aware UTC moment, or ``None`` where the date is not complete."""
        if self.kind is not TimeKind.FULL:
            return None
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at_s)

    def seconds_until(self, later: LineTime) -> float | None:
        """Seconds from this time to ``later``, across midnight and New Year; ``None`` for unlike kinds."""
        if self.kind is not later.kind:
            return None
        gap = later.at_s - self.at_s
        if self.kind is TimeKind.CLOCK_ONLY and gap < -_DAY_S / 2:
            return gap + _DAY_S
        if self.kind is TimeKind.NO_YEAR and gap < -180 * _DAY_S:
            return gap + 366 * _DAY_S
        return gap


def find_time(text: str) -> LineTime | None:
    """The first timestamp near the start of ``text``; ``None`` when there is none.

    Elapsed and remaining times of progress bars (``[00:12<01:30``) and durations are not timestamps.
    """
    head = text[:_SEARCH_CHARS]
    if not _CLOCK_LIKE.search(head) and not _UNIX.match(head):
        return None
    for pattern, reader in _READERS:
        match = pattern.search(head)
        if match:
            found = reader(match)
            if found is not None:
                return LineTime(found[0], found[1], match.span())
    return None


def days_since_epoch(year: int, month: int, day: int) -> int | None:
    """Days from 1970-01-01; ``None`` for a date that does not exist."""
    return _days(year, month, day)


@lru_cache(maxsize=4096)
def _days(year: int, month: int, day: int) -> int | None:
    try:
        return datetime(year, month, day, tzinfo=UTC).toordinal() - 719_163
    except ValueError:
        return None


def _clock_s(match: re.Match[str]) -> float | None:
    hour, minute, second = int(match["H"]), int(match["M"]), int(match["S"] or 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    fraction = match["f"]
    return hour * 3600 + minute * 60 + second + (float(f"0.{fraction}") if fraction else 0.0)


def _dated(match: re.Match[str], year: int, month: int, day: int) -> tuple[float, TimeKind] | None:
    clock = _clock_s(match)
    days = _days(year, month, day)
    if clock is None or days is None:
        return None
    return days * _DAY_S + clock - _zone_s(match.groupdict().get("tz")), TimeKind.FULL


def _zone_s(zone: str | None) -> float:
    if not zone or zone in ("Z", "UTC"):
        return 0.0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60)


def _iso(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    return _dated(match, int(match["Y"]), int(match["m"]), int(match["d"]))


def _us_date(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    month, day = int(match["m"]), int(match["d"])
    if month > 12:
        month, day = day, month
    return _dated(match, int(match["Y"]), month, day)


def _short_date(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    """``25/03/11`` (year first) or ``03/11/25`` (year last): a month is at most 12."""
    first, second, third = int(match["a"]), int(match["b"]), int(match["c"])
    year, month, day = (first, second, third) if first > 12 else (third, first, second)
    return _dated(match, 2000 + year, month, day)


def _named_month(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    month = _MONTHS[match["mon"].lower()]
    if year := match["Y"] or match["year_last"]:
        return _dated(match, int(year), month, int(match["d"]))
    return _no_year(match, month, int(match["d"]))


def _month_day(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    return _no_year(match, int(match["m"]), int(match["d"]))


def _no_year(match: re.Match[str], month: int, day: int) -> tuple[float, TimeKind] | None:
    clock, days = _clock_s(match), _days(_LEAP_YEAR, month, day)
    start = _days(_LEAP_YEAR, 1, 1)
    if clock is None or days is None or start is None:
        return None
    return (days - start) * _DAY_S + clock, TimeKind.NO_YEAR


def _clock_only(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    clock = _clock_s(match)
    return None if clock is None else (clock, TimeKind.CLOCK_ONLY)


def _unix(match: re.Match[str]) -> tuple[float, TimeKind] | None:
    return float(match[1]), TimeKind.FULL


_CLOCK = r"(?P<H>\d\d?):(?P<M>\d\d):(?P<S>\d\d)(?:[.,:](?P<f>\d{1,9}))?(?!\d)"
_ZONE = r"(?: ?(?P<tz>Z\b|[+-]\d\d:?\d\d\b))?"
_CLOCK_LIKE = re.compile(r"\d:\d\d:\d\d")
_MONTH_NAME = r"(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_UNIX = re.compile(r"^\s*[\[(]?(1[4-9]\d{8}(?:\.\d{1,9})?)[\])]?(?=[\s:,|])")
_READERS = (
    (
        re.compile(
            r"(?<![\d.])(?P<Y>(?:19|20)\d\d)(?P<sep>[-/.年]?)(?P<m>\d\d?)(?:(?P=sep)|月)(?P<d>\d\d?)日?"
            r"(?:T|[ ,_:|-]{1,3})" + _CLOCK + _ZONE
        ),
        _iso,
    ),
    (re.compile(r"(?<![\d.])(?P<m>\d\d?)[-/.](?P<d>\d\d?)[-/.](?P<Y>20\d\d)[ ,T]{1,2}" + _CLOCK + _ZONE), _us_date),
    (re.compile(r"(?<![\d./])(?P<a>\d\d)/(?P<b>\d\d)/(?P<c>\d\d) " + _CLOCK), _short_date),
    (
        re.compile(
            r"\b"
            + _MONTH_NAME
            + r" {1,2}(?P<d>\d\d?),?(?: (?P<Y>\d{4}))? "
            + _CLOCK
            + r"(?: (?P<tz>Z|UTC)| [A-Z]{3,5})?(?: (?P<year_last>20\d\d)\b)?",
            re.IGNORECASE,
        ),
        _named_month,
    ),
    (re.compile(r"(?<![\w/])(?P<m>\d\d)[-/](?P<d>\d\d) " + _CLOCK), _month_day),
    (re.compile(r"(?:^|[\[\s:])[IWEFDV](?P<m>\d{1,2}?)(?P<d>\d\d) " + _CLOCK), _month_day),
    (_UNIX, _unix),
    (re.compile(r"^[\s\[(|]*" + _CLOCK + r"(?=[\]\s|,)-])(?!\s*<)"), _clock_only),
)
