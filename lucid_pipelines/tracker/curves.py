"""Curves of a job's values over time: small SVG for a page, dots for a terminal. No plotting library is loaded: the
metrics asset draws them every half minute in a process that lives for seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from lucid_pipelines.duration_text import span_text

Points = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 360, 120, 52, 18, 16
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def curve_svg(points: Points, title: str, colour: str = "#2f6db3") -> str:
    """Values over seconds as one SVG element; infinite and undefined values are left out."""
    shown = _finite(points)
    frame = f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="10"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>'
    parts = [head, f'<text x="{_LEFT}" y="11">{escape(title)}</text>']
    if shown:
        (x0, x1), (y0, y1) = _spans(shown)
        across, up = _WIDTH - _LEFT - 6, _HEIGHT - _BOTTOM - _TOP
        path = " ".join(
            f"{_LEFT + (x - x0) / (x1 - x0) * across:.1f},{_TOP + (y1 - y) / (y1 - y0) * up:.1f}" for x, y in shown
        )
        floor = _HEIGHT - _BOTTOM
        parts.append(
            f'<rect x="{_LEFT}" y="{_TOP}" width="{across}" height="{up}" fill="none" stroke="#ccc"/>'
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
            f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{y1:.4g}</text>'
            f'<text x="{_LEFT - 4}" y="{floor}" text-anchor="end">{y0:.4g}</text>'
            f'<text x="{_LEFT}" y="{_HEIGHT - 5}">{span_text(x0)}</text>'
            f'<text x="{_WIDTH - 6}" y="{_HEIGHT - 5}" text-anchor="end">{span_text(x1)}</text>'
        )
    else:
        parts.append(f'<text x="{_LEFT}" y="{_HEIGHT // 2}" fill="#888">nothing yet</text>')
    return "".join(parts) + "</svg>"


def curve_lines(points: Points, width: int, height: int) -> list[str]:
    """Values over seconds as lines of Braille dots with their bounds at the left, ``height`` + 1 lines.

    Args:
        width: columns in all; at least 24 are used.
        height: lines of the curve itself.
    """
    shown = _finite(points)
    if not shown:
        return ["nothing yet"]
    (x0, x1), (y0, y1) = _spans(shown)
    columns = max(24, width) - 11
    cells = [[0] * columns for _ in range(height)]
    previous: tuple[int, int] | None = None
    for x, y in shown:
        dot = (
            round((x - x0) / (x1 - x0) * (2 * columns - 1)),
            round((y1 - y) / (y1 - y0) * (4 * height - 1)),
        )
        for across, down in _between(previous or dot, dot):
            cells[down // 4][across // 2] |= _DOTS[across % 2][down % 4]
        previous = dot
    labels = {0: f"{y1:.4g}", height - 1: f"{y0:.4g}"}
    lines = [
        f"{labels.get(row, ''):>9} ▏" + "".join(chr(0x2800 + cell) for cell in cells[row]) for row in range(height)
    ]
    left, right = span_text(x0), span_text(x1)
    return [*lines, " " * 11 + left + right.rjust(columns - len(left))]


def _finite(points: Points) -> list[tuple[float, float]]:
    return sorted((x, y) for x, y in points if math.isfinite(x) and abs(y) < 1e300)


def _spans(points: Points) -> tuple[tuple[float, float], tuple[float, float]]:
    """Smallest and largest of both axes, never equal."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return _widened(min(xs), max(xs)), _widened(min(ys), max(ys))


def _widened(low: float, high: float) -> tuple[float, float]:
    if high > low:
        return low, high
    margin = abs(low) * 0.05 or 1.0
    return low - margin, high + margin


def _between(begin: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Dots of a straight line, both ends included."""
    steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
    return [
        (
            begin[0] + round((end[0] - begin[0]) * i / steps),
            begin[1] + round((end[1] - begin[1]) * i / steps),
        )
        for i in range(steps + 1)
    ]
