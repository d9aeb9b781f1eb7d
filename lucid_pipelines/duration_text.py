"""Durations for people: every form that tables, curves, pages and sentences show them in."""

from __future__ import annotations

_HOUR_S, _DAY_S = 3600, 86_400
_UNKNOWN = "–"


def compact_text(seconds: float | None) -> str:
    """For columns: ``4.2s``, ``3m05s``, ``2h07m``, ``5d03h``; a dash for unknown."""
    if seconds is None:
        return _UNKNOWN
    # Rounded first: 59.97 s are a minute, not 60.0s.
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    return f"{whole // 60}m{whole % 60:02d}s" if whole < _HOUR_S else _hours_or_days(whole)


def span_text(seconds: float) -> str:
    """For axes, in whole units: ``40s``, ``12m``, ``3h05m``, ``2d04h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m" if whole < _HOUR_S else _hours_or_days(whole)


def spaced_text(seconds: float | None) -> str:
    """For what is only roughly known: ``40 s``, ``3 min``, ``5 h 10 min``, ``2 d 3 h``; a dash for unknown."""
    if seconds is None:
        return _UNKNOWN
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{s} s"


def one_unit_text(seconds: float) -> str:
    """For sentences: ``90 s``, ``12 min``, ``2.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"


def _hours_or_days(whole: int) -> str:
    if whole < _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // 60:02d}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S:02d}h"
