"""The control loop as a process of its own that kills itself with SIGKILL at a chosen moment.

``python -m tests.support_control.killed_loop HOME WINDOW STATEMENT``: from the first call that opens the window on, SQL
statements, commits and calls of the cluster are counted; at the given count the process is gone, without a goodbye.
``WINDOW`` ``-`` = to the end. Exit status 0: every job has ended and every node is back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from lucid_pipelines.client import Client
from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.intake import claim_batch, take_in
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.resources.clusters.local import LocalCluster
from lucid_pipelines.settings import load_settings
from lucid_pipelines.store.attempts import Attempts
from lucid_pipelines.store.loans import Loans
from lucid_pipelines.store.pairs import Pairs

LONGEST_S = 240.0
Opens = Callable[..., bool]
OPENINGS: dict[str, tuple[type, str, Opens]] = {
    "form": (Attempts, "place", lambda *_, **options: options.get("partner_job_id") is not None),
    "split": (Attempts, "request_stop", lambda *_, **options: bool(options.get("never_pack"))),
    "judge": (Pairs, "judge", lambda pairs, number, verdict, *_, **__: verdict.value == "split"),
    "move": (Attempts, "request_stop", lambda *_, **options: options.get("reason") == "profiled"),
    "continue": (Attempts, "go_on", lambda *_, **__: True),
    "lend": (Loans, "lend", lambda *_, **__: True),
    "return": (Loans, "give_back", lambda *_, **__: True),
}
"""The method whose call opens a window, if its arguments say so."""


class Fuse:
    """Counts from the moment at which it is lit."""

    def __init__(self, most: int) -> None:
        self.most, self.count, self.is_lit = most, 0, False

    def burn(self, *_: object) -> None:
        if self.is_lit:
            self.count += 1
            if self.count > self.most:
                os.kill(os.getpid(), signal.SIGKILL)


def lay(fuse: Fuse, window: str) -> None:
    """Light the fuse when the window opens; let it burn at every statement, commit and call of the cluster."""
    owner, name, opens = OPENINGS[window]
    true = getattr(owner, name)

    def opening(*arguments: Any, **options: Any) -> Any:
        fuse.is_lit = fuse.is_lit or opens(*arguments, **options)
        return true(*arguments, **options)

    setattr(owner, name, opening)
    for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, moment, fuse.burn)
    for call in ("launch", "stop"):
        _burn_around(fuse, call)


def _burn_around(fuse: Fuse, name: str) -> None:
    true = getattr(LocalCluster, name)

    def around(*arguments: Any, **options: Any) -> Any:
        fuse.burn()
        answer = true(*arguments, **options)
        fuse.burn()
        return answer

    setattr(LocalCluster, name, around)


def drive(system: System) -> bool:
    """What the sensors and jobs do together, until every job has ended and no node is lent."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        step(system)
        counts = system.store.jobs.counts()
        if not any(count and not state.is_terminal for state, count in counts.items()) and not system.store.loans.out():
            return True
        time.sleep(0.1)
    return False


def step(system: System) -> None:
    """One round of all that sensors and jobs do. Every job is told to take 20 s."""
    for claim in claim_batch(system, "intake"):
        take_in(system, claim)
        told = Estimate(20.0, "told")
        system.store.jobs.annotate(claim.item.job_id, who="test", why="told", now=system.clock.now(), estimate=told)
    run_pass(system, f"loop-{os.getpid()}")
    for claim in claim_exits(system, "exits"):
        handle_exit(system, claim)
    carry_out_due(system)


def main(home: str, window: str, statement: str) -> int:
    if window != "-":
        lay(Fuse(int(statement)), window)
    with Client(settings=load_settings(Path(home))) as client:
        return 0 if drive(client.system) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
