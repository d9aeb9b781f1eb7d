"""Write a simulated run in a format: the bytes of a log and what is right to say about it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support_tracker.formats import Format
from tests.support_tracker.nothing import noise_line
from tests.support_tracker.runs import Plan, Report, simulate, true_step_s


@dataclass(frozen=True)
class Written:
    """A log and the right answers."""

    data: bytes
    last: Report
    steps: frozenset[int] | None
    step_s: float | None
    losses: tuple[float, ...]
    """Right answers for the loss; empty when there must be none."""


def write(form: Format, *, seed: int = 1, noisy: bool = False, reports: int = 140, cut: bool = False) -> Written:
    """Render a run; ``noisy`` puts a line of noise behind every report, ``cut`` stops in the middle of one."""
    rng = random.Random(seed * 7919 + len(form.name))
    needed = -(-form.every * (reports + 8) // form.per_epoch)
    epochs = max(form.epochs, needed)
    spare = form.per_epoch * epochs // form.every - reports
    plan = Plan(
        seed=seed,
        reports=reports,
        every=form.every,
        per_epoch=form.per_epoch,
        epochs=epochs,
        step_s=form.step_s * rng.uniform(0.6, 1.7),
        first_step=form.every * rng.randrange(0, max(1, min(30, spare))),
    )
    rows = list(simulate(plan))
    out: list[str] = ["starting job 12345 on node7\n", "Namespace(seed=1, batch_size=64, epochs=20)\n"]
    out += [line + "\n" for line in form.header]
    fresh = True
    for row in rows:
        for text in form.render(row):
            if form.redraw and not text.endswith("\n"):
                out.append("\r" + text)
                fresh = False
                if row.ends_epoch:
                    out.append("\n")
                    fresh = True
            else:
                out.append(text if text.endswith("\n") else text + "\n")
        if noisy:
            out.append(("" if fresh or rng.random() < 0.2 else "\n") + noise_line(rng, row.at) + "\n")
            fresh = True
    data = "".join(out).encode()
    if cut:
        last = form.render(rows[-1])[0]
        data += ("\r" if form.redraw else "").encode() + last[: max(4, len(last) // 3)].encode()
    true_s = true_step_s(rows)
    return Written(
        data,
        rows[-1],
        frozenset(form.steps(rows[-1])) if form.step_known else None,
        None if form.time is None else true_s * (plan.per_epoch if form.time == "epoch" else 1),
        tuple(rows[-1].loss * share for share in form.losses),
    )
