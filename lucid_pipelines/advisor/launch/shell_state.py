"""What a shell script knows while it is read: variables, functions, positional words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lucid_pipelines.advisor.evaluator.values import Lit, Origin


@dataclass(slots=True)
class Variable:
    """A shell variable: one text, or the items of an array. ``None`` inside means unknown.

    Attributes:
        partial: what is known of an unknown text, with ``${NAME}`` for the rest: words of a command are told
            apart by it, but nothing is compared with it.
    """

    items: list[str | None]
    origin: Origin | None
    is_array: bool = False
    origins: list[Origin | None] = field(default_factory=list)
    partial: str | None = None

    @property
    def text(self) -> str | None:
        return self.items[0] if self.items else ""


@dataclass(slots=True)
class ShellCommand:
    """One command that a script runs.

    Attributes:
        words: its words after expansion; each remembers where its text was written.
        env: variables set for it, exported ones included.
        cwd: working directory inside the snapshot.
        certain: whether it runs in every case.
        file, line: where it stands.
    """

    words: list[Lit]
    env: dict[str, Lit]
    cwd: str
    certain: bool
    file: str
    line: int


@dataclass(slots=True)
class ShellState:
    """Variables and the place of one script that is being read."""

    file: str
    cwd: str
    script: str
    variables: dict[str, Variable] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    positional: list[Lit] = field(default_factory=list)
    commands: list[ShellCommand] = field(default_factory=list)
    uncertain: int = 0
    depth: int = 0
    steps: list[int] = field(default_factory=lambda: [0])
    batch: dict[str, Lit] = field(default_factory=dict)

    def get(self, name: str) -> Variable | None:
        return self.variables.get(name)

    def set(self, name: str, text: str | None, origin: Origin | None, partial: str | None = None) -> None:
        self.variables[name] = Variable([text], origin, partial=partial)

    def environment(self) -> dict[str, Lit]:
        """The exported variables with known texts."""
        return {
            name: Lit(variable.text, variable.origin)
            for name, variable in self.variables.items()
            if name in self.exported and not variable.is_array and variable.text is not None
        }
