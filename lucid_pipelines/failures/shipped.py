"""Measured data that is shipped beside the code."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import cast

from lucid_pipelines.domain.errors import InputError


def shipped_json(name: str) -> dict[str, object]:
    """One JSON file of this package. Raises ``InputError`` when it is no JSON object."""
    text = (files("lucid_pipelines.failures") / name).read_text("utf-8")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"the shipped {name} is damaged: {error}. Install the package again") from error
    if not isinstance(document, dict):
        raise InputError(f"the shipped {name} is damaged: it holds no object. Install the package again")
    return cast("dict[str, object]", document)
