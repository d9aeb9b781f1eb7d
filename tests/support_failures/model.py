"""What a generated failure log is made of, and what its right answer is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A culprit's own print and its label.

    Attributes:
        stack: which progress lines come before it (``startup`` = none).
        print_: its lines; ``>>`` marks the root line. Any line of it counts as inside.
        echo: which cascade follows: ``abort``, ``stall``, ``none``.
        launcher: which summary ends the log: ``torchrun``, ``srun``, ``k8s``, ``mpirun``, ``ray``, ``none``.
        components: other right components.
    """

    name: str
    stack: str
    category: str | None
    component: str | None
    restart: bool
    print_: str
    echo: str = "abort"
    launcher: str = "torchrun"
    components: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailureCase:
    """One generated log.

    Attributes:
        data: its bytes.
        root_line: 1-based; ``None`` for a trap.
        span: first and last line of the culprit's own print.
    """

    name: str
    data: bytes
    category: str | None
    component: str | None
    restart: bool
    root_line: int | None
    span: tuple[int, int] | None
    components: tuple[str, ...] = ()
