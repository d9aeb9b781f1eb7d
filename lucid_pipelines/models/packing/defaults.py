"""The packing model that comes with the package, for a site without measurements of its own.

``lucid models train packing --pairs FILE --profiles FILE --out FILE`` makes such a file; docs/models.md says what
this one rests on and where it must not be trusted.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lucid_pipelines.models.packing.model import PackingModel

_FILE = "default_model.json"


@lru_cache(maxsize=1)
def default_packing_model() -> PackingModel:
    """The shipped model, checked against its golden answers.

    Raises:
        ArtefactError: the file in the package is damaged.
    """
    return PackingModel.from_document(default_packing_document())


def default_packing_document() -> dict[str, Any]:
    """The shipped model's document."""
    document: dict[str, Any] = json.loads(files(__package__ or "").joinpath(_FILE).read_text(encoding="utf-8"))
    return document
