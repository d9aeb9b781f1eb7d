"""What a reader of code is told of a job, and what it may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lucid_pipelines.advisor.source_tree import ReadLimits


@dataclass(frozen=True, slots=True)
class LaunchDescription:
    """How a job is started.

    Attributes:
        command: words of the launch line; one text with blanks is split as a shell would.
        env: variables that the submission adds.
        workdir: working directory inside the snapshot, relative.
        gpus, nodes: what the submission asks for in all; ``None`` = not said.
        entry: path of the entry file, for a launch line that is ambiguous on its own.
    """

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    workdir: str = ""
    gpus: int | None = None
    nodes: int | None = None
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """Bounds on one extraction. Steps decide first, so that results do not depend on the machine's load."""

    wall_s: float = 15.0
    steps: int = 260_000
    nested_launches: int = 2
    read: ReadLimits = field(default_factory=ReadLimits)
