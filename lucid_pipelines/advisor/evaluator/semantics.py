"""The semantics of Python, put together from its parts."""

from __future__ import annotations

from functools import lru_cache

from lucid_pipelines.advisor.evaluator.access import get_attribute
from lucid_pipelines.advisor.evaluator.calls import call_value
from lucid_pipelines.advisor.evaluator.expressions import HANDLERS as EXPRESSION_HANDLERS
from lucid_pipelines.advisor.evaluator.machine import Semantics
from lucid_pipelines.advisor.evaluator.statements import HANDLERS as STATEMENT_HANDLERS


@lru_cache(maxsize=1)
def python_semantics() -> Semantics:
    """Handlers for every kind of syntax node."""
    return Semantics(EXPRESSION_HANDLERS, STATEMENT_HANDLERS, call_value, get_attribute)
