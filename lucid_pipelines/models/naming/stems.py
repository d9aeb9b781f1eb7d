"""What is left of a job's name without the parts that change from run to run."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_CHARS = 64
"""One machine word of the distance computation; what tells names apart stands before."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX = re.compile(r"(?<![a-z0-9])(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{6,}(?![a-z0-9])")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_MARKS = re.compile(r"#(?:[\W_]*#)+")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=65_536)
def stem(name: str) -> str:
    """The name in lower case with numbers, dates, hashes and UUIDs as ``#``, at most ``MAX_CHARS`` long.

    ``resnet50_lr0.01_seed3`` and ``ResNet50-lr0.1-seed12`` differ afterwards only by their separators.
    """
    text = unicodedata.normalize("NFKC", name).strip().lower()
    text = _HEX.sub("#", _UUID.sub("#", text))
    text = _MARKS.sub("#", _NUMBER.sub("#", text))
    return _SPACE.sub(" ", text)[:MAX_CHARS]
