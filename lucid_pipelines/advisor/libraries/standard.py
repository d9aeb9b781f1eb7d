"""All library models together."""

from __future__ import annotations

from lucid_pipelines.advisor.evaluator.builtin_functions import builtin_values
from lucid_pipelines.advisor.evaluator.machine import Library
from lucid_pipelines.advisor.libraries import (
    absl_flags,
    argparse_model,
    click_commands,
    commands,
    configurations,
    dataclass_parsers,
    files,
    hydra_model,
    processes,
    python_library,
    training,
)


def standard_library() -> Library:
    """A fresh library with every model registered."""
    library = Library(builtins=builtin_values())
    for part in (
        python_library,
        files,
        argparse_model,
        commands,
        click_commands,
        absl_flags,
        dataclass_parsers,
        configurations,
        hydra_model,
        processes,
        training,
    ):
        part.register(library)
    return library
