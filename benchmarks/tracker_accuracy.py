"""How right the tracker is: public labelled logs by framework, labelled lines, seven generated sets, mixtures.

``python -m benchmarks.tracker_accuracy [--data ../shared/data] [--json]``

Nothing of the tracker is trained on logs, and no framework is named in it, so that leaving a framework out changes
nothing by construction; what says how it fares on unseen ones are the figures of each generated set before anything
was mended for it, which docs/metric-tracker.md records. This benchmark watches that nothing is lost again: every
framework alone must keep its bounds, not only the mean over them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, report
from lucid_pipelines.tracker.classes import LineClass, LineClassifier
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import track_file
from tests.support_tracker.formats import FORMATS, Format
from tests.support_tracker.formats_fresh import FRESH
from tests.support_tracker.formats_last import LAST
from tests.support_tracker.formats_late import LATE
from tests.support_tracker.formats_more import MORE
from tests.support_tracker.formats_rare import RARE
from tests.support_tracker.formats_wild import WILD
from tests.support_tracker.nothing import NOTHING
from tests.support_tracker.nothing_more import MORE_NOTHING
from tests.support_tracker.write import write
from tests.tracker.test_formats import LIMITS, faults, track

assert set(MORE_NOTHING) < set(NOTHING)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LUCID_DATA", "../shared/data")))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    claims = [
        *public(options.data / "logs"),
        *classes(options.data / "logs" / "lines.jsonl"),
        *generated(),
        *mixtures(),
    ]
    return report(claims, as_json=options.json)


def public(folder: Path) -> list[Claim]:
    """The public labelled logs: the mean, and the framework that fares worst in each figure."""
    labels = folder / "progress" / "labels_public.jsonl"
    if not labels.is_file():
        print(f"left out: there are no labelled logs at {labels}", file=sys.stderr)
        return []
    by_framework: dict[str, list[dict[str, bool]]] = defaultdict(list)
    wrong = total = 0
    with tempfile.TemporaryDirectory() as place:
        for line in labels.read_text().splitlines():
            row = json.loads(line)
            path = Path(place) / "log"
            path.write_bytes(gzip.decompress((folder / "progress" / row["file"]).read_bytes()))
            progress = track_file(path, parser=RecordParser())
            right, false = judged(row, progress)
            by_framework[row["framework"]].append(right)
            wrong, total = wrong + false, total + len(right)
    rows = [row for group in by_framework.values() for row in group]
    claims = []
    for name, bound in (("step", 0.98), ("step_time_s", 0.95), ("loss", 0.95)):
        worst = min(by_framework, key=lambda framework: share_right(by_framework[framework], name))
        claims.append(Claim(f"public logs, {name} right", share_right(rows, name), at_least=bound, samples=len(rows)))
        least = share_right(by_framework[worst], name)
        claims.append(Claim(f"public logs, {name} right, worst framework ({worst})", least, at_least=0.5))
    return [*claims, Claim("public logs, wrong values", wrong / total, at_most=0.02, why="worse than none")]


def classes(path: Path) -> list[Claim]:
    """The 146 labelled lines; the classifier has seen none of them."""
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    classifier = LineClassifier()
    hits = sum(_folded(classifier.classify_line(row["line"].encode())) == row["label"] for row in rows)
    return [Claim("labelled lines, class right", hits / len(rows), at_least=0.8, samples=len(rows))]


def generated() -> list[Claim]:
    """Each generated set, clean and noisy, as it stands after mending."""
    sets = {
        "home-made": MORE,
        "rare": RARE,
        "other languages, layouts": FRESH,
        "carriers, scales, ranks": WILD,
        "services, reports": LATE,
        "newer trainers, other tongues": LAST,
    }
    later = {form.name for forms in sets.values() for form in forms}
    sets["in use"] = [form for form in FORMATS if form.name not in later]
    return [claim for name, forms in sets.items() for claim in _set(name, forms)]


def mixtures(seed: int = 1, each: int = 6) -> list[Claim]:
    """Trainings between whose lines another program prints: each kind of log without training, with a few formats."""
    rng = random.Random(seed)
    known = [form for form in FORMATS if form.name not in LIMITS]
    right = wrong = logs = 0
    for writer in NOTHING.values():
        foreign = writer(random.Random(5), 300)
        for form in rng.sample(known, each):
            written = write(form, seed=9, reports=110)
            found, false = faults(form, written, track(_mixed(written.data, foreign, blockwise=form.redraw)))
            logs, right, wrong = logs + 1, right + (not found), wrong + false
    return [
        Claim("trainings mixed with another program: logs entirely right", right / logs, at_least=0.95, samples=logs),
        Claim("trainings mixed with another program: wrong values", wrong / (3 * logs), at_most=0.02, samples=3 * logs),
        Claim("logs without training: with a value", _inventions() / len(NOTHING), at_most=0.0, samples=len(NOTHING)),
    ]


def _mixed(data: bytes, foreign: Sequence[str], *, blockwise: bool) -> bytes:
    """Line by line; what redraws its line is put between two blocks of the other."""
    own = data.decode().split("\n")
    if blockwise:
        return "\n".join([*foreign[:150], *own, *foreign[150:160]]).encode()
    pairs = zip_longest(own, foreign[: len(own)])
    return "\n".join(line for pair in pairs for line in pair if line is not None).encode()


def _inventions() -> int:
    return sum(not track("\n".join(w(random.Random(4), 300)).encode() + b"\n").is_missing for w in NOTHING.values())


def _set(name: str, forms: Sequence[Format]) -> list[Claim]:
    logs = right = wrong = 0
    for form in forms:
        for noisy in (False, True):
            written = write(form, seed=11, noisy=noisy)
            found, false = faults(form, written, track(written.data))
            logs, right, wrong = logs + 1, right + (not found), wrong + false
    return [
        Claim(f"generated, {name}: logs entirely right", right / logs, at_least=0.8, samples=logs),
        Claim(f"generated, {name}: wrong values", wrong / (3 * logs), at_most=0.02, samples=3 * logs),
    ]


def judged(row: Mapping[str, Any], progress: Progress) -> tuple[dict[str, bool], int]:
    """Which values are right, and how many are wrong rather than missing."""
    expected = row["expected"]
    steps = row.get("step_accept") or [expected["step"]]
    losses = row.get("loss_accept") or [expected["loss"]]
    tolerance = 0.02
    right = {
        "step": progress.step in steps if expected["step"] is not None else progress.step is None,
        "step_time_s": _near([expected["step_time_s"]], progress.step_time_s, 0.15),
        "loss": _near(losses, progress.loss, tolerance),
    }
    shown = {"step": progress.step, "step_time_s": progress.step_time_s, "loss": progress.loss}
    return right, sum(not right[name] and shown[name] is not None for name in right)


def _near(wanted: Sequence[float | None], shown: float | None, tolerance: float) -> bool:
    known = [value for value in wanted if value is not None]
    if not known:
        return shown is None
    return shown is not None and any(abs(shown - value) <= tolerance * abs(value) + 1e-12 for value in known)


def share_right(rows: Sequence[Mapping[str, bool]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def _folded(found: LineClass | None) -> str:
    """The labels are coarser than our classes."""
    names = {"evaluation": "progress", "checkpoint": "info", "data": "init", "build": "init"}
    return names.get(str(found), str(found))


if __name__ == "__main__":
    sys.exit(main())
