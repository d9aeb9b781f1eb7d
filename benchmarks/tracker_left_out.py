"""How the tracker fares on a framework that it could have learnt nothing from: leave one framework out.

``python -m benchmarks.tracker_left_out [--data ../shared/data] [--json] [--show]``

The tracker learns nothing from logs by itself: what people learnt for it from logs is its vocabulary. So, for each
framework of the public labelled logs, every word of the vocabulary that stands in that framework's logs and in no
other's is taken out, and that framework is scored with what is left. What the grammar of numbers owes to a framework
cannot be taken out like this; the generated sets that were scored before anything was mended for them tell of that
(``docs/metric-tracker.md``).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, report
from benchmarks.tracker_accuracy import judged, share_right
from lucid_pipelines.tracker import fields, meaning, phase, vocabulary, window
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.tracking import track_file

FIGURES = ("step", "step_time_s", "loss")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LUCID_DATA", "../shared/data")))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="print a line a framework")
    options = parser.parse_args()
    folder = options.data / "logs" / "progress"
    labels = folder / "labels_public.jsonl"
    if not labels.is_file():
        print(f"there are no labelled logs at {labels}", file=sys.stderr)
        return 1
    rows = [json.loads(line) for line in labels.read_text().splitlines()]
    return report(left_out(folder, rows, show=options.show), as_json=options.json)


def left_out(folder: Path, rows: list[dict[str, Any]], *, show: bool = False) -> list[Claim]:
    """Score every framework without the words that only its own logs have."""
    data = {row["file"]: gzip.decompress((folder / row["file"]).read_bytes()) for row in rows}
    spoken: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        spoken[row["framework"]] |= set(meaning.tokens_of(data[row["file"]].decode("utf-8", "replace")))
    right: list[dict[str, bool]] = []
    wrong = removed = 0
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "log"
        for framework in sorted(spoken):
            others = set().union(*(words for name, words in spoken.items() if name != framework))
            own = spoken[framework] - others
            before, wrong_before = len(right), wrong
            with _without(own) as gone:
                removed += len(gone)
                for row in rows:
                    if row["framework"] != framework:
                        continue
                    path.write_bytes(data[row["file"]])
                    found, false = judged(row, track_file(path, parser=RecordParser()))
                    right.append(found)
                    wrong += false
            if show:
                figures = ", ".join(f"{name} {share_right(right[before:], name):.0%}" for name in FIGURES)
                print(
                    f"{framework:24} {figures}, {wrong - wrong_before} wrong; without {' '.join(sorted(gone)) or '-'}"
                )
    bounds = (("step", 0.95), ("step_time_s", 0.9), ("loss", 0.95))
    claims = [
        Claim(f"a framework left out, {name} right", share_right(right, name), at_least=bound, samples=len(right))
        for name, bound in bounds
    ]
    least = "so few that the test would say nothing"
    return [
        *claims,
        Claim("a framework left out, wrong values", wrong / (3 * len(right)), at_most=0.02, why="worse than none"),
        Claim("words taken out, all frameworks together", removed, at_least=10.0, why=least),
    ]


@contextmanager
def _without(own: set[str]) -> Iterator[set[str]]:
    """The vocabulary without some words, while the block runs; gives those that it had."""
    places = [
        (module, name, value)
        for module in (vocabulary, meaning, fields, phase)
        for name, value in list(vars(module).items())
        if isinstance(value, frozenset) and value and all(isinstance(word, str) for word in value)
    ]
    gone: set[str] = set()
    try:
        for module, name, value in places:
            gone |= value & own
            setattr(module, name, value - own)
        _forget()
        yield gone
    finally:
        for module, name, value in places:
            setattr(module, name, value)
        _forget()


def _forget() -> None:
    for remembered in (meaning.meaning, phase.phase_of, window._is_interesting, window._head_facts):
        remembered.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
