"""Pieces of Markdown that reports and the Dagster UI show."""

from __future__ import annotations

from base64 import b64encode


def svg_image(name: str, svg: str) -> str:
    """A drawing as an image that carries its own data, so that the page needs no other file."""
    return f"![{name}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"
