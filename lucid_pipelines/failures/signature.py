"""A stable name for a root error: two failures with the same signature are the same failure again."""

from __future__ import annotations

import hashlib

from lucid_pipelines.failures.diagnosis import Diagnosis
from lucid_pipelines.failures.textmodel import masked
from lucid_pipelines.failures.vocabulary import Category, Component

_TEXT_CHARS = 160


def signature_of(diagnosis: Diagnosis, category: Category | None, component: Component | None) -> str:
    """``family:digest``; numbers, addresses and paths in the text do not count.

    Args:
        category, component: the class after all evidence was heard.
    """
    c = diagnosis.classified
    name = c.family.name if c.family is not None else (c.rule_id or diagnosis.ending.value)
    text = masked(diagnosis.root_text or "")[:_TEXT_CHARS]
    parts = (name, category.value if category else "-", component.value if component else "-", text)
    return f"{name}:{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:12]}"
