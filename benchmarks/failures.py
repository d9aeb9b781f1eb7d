"""Measure the failure handler: scores, ablations, families left out, calibration, speed.

    python -m benchmarks.failures scores|ablations|left-out|calibrate|speed|all [--data FOLDER] [--write]

``--write`` puts what ``left-out`` (the confusion matrices) or ``calibrate`` (the table of confidences) measured into
the package.

Logs come from the generated worlds in ``tests/support_failures`` and, where ``--data`` (or ``LUCID_DATA``) names
it, from the folder of public labelled logs. Every figure is printed as JSON, one object a line.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from benchmarks import failure_calibration as fitting
from benchmarks.failure_methods import ABLATIONS, Answer, Method, whole
from lucid_pipelines.failures.calibration import calibration_to_json
from lucid_pipelines.failures.confusion import answer_key
from lucid_pipelines.failures.corpus import Corpus, build_corpus
from lucid_pipelines.failures.diagnosis import Tools, diagnose_log, shipped_tools
from lucid_pipelines.failures.locate import Located, locate
from lucid_pipelines.failures.scan import scan
from lucid_pipelines.failures.stems import is_hot
from lucid_pipelines.failures.train import train
from lucid_pipelines.failures.vocabulary import Category
from lucid_pipelines.logs import detect_labels_in
from tests.support_failures import worlds
from tests.support_failures.batches import FAULTS, QUIRKS
from tests.support_failures.model import FailureCase
from tests.support_failures.reading import raws

_PACKAGE = Path(__file__).parents[1] / "lucid_pipelines" / "failures"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scores", "ablations", "left-out", "calibrate", "speed", "all"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LUCID_DATA", "../shared/data")))
    parser.add_argument("--write", action="store_true", help="Write what was measured into the package.")
    options = parser.parse_args(arguments)
    sets = {"generated": generated_cases(), "public": public_cases(options.data)}
    tools = shipped_tools()
    if options.what in ("scores", "all"):
        for name, cases in sets.items():
            report("scores", name, measure(cases, whole, tools))
    if options.what in ("ablations", "all"):
        for name, cases in sets.items():
            for method_name, method in ABLATIONS.items():
                report("ablation " + method_name, name, measure(cases, method, tools))
    if options.what in ("left-out", "all"):
        left_out(sets, tools, write=options.write)
    if options.what in ("calibrate", "all"):
        calibrate(sets, tools, write=options.write)
    if options.what in ("speed", "all"):
        speeds(sets["public"] or sets["generated"], tools)
    return 0


# ---------------------------------------------------------------- cases


def generated_cases() -> list[FailureCase]:
    """Every fault in two worlds with different quirks, and every trap four times."""
    cases = [
        worlds.build(fault, seed, quirks=QUIRKS[(2 * i + seed) % len(QUIRKS)])
        for i, fault in enumerate(FAULTS)
        for seed in range(2)
    ]
    return cases + [worlds.trap(kind, seed) for kind in worlds.TRAPS for seed in range(4)]


def public_cases(data: Path) -> list[FailureCase]:
    """The public labelled logs; empty where they are absent."""
    folder = data / "logs" / "failures"
    cases = []
    for labels in ("labels_public.jsonl", "traps_public.jsonl"):
        if not (folder / labels).is_file():
            continue
        for line in (folder / labels).read_text().splitlines():
            row = json.loads(line)
            content = gzip.decompress((folder / row["file"]).read_bytes())
            is_trap = row["category"] is None
            span = row.get("traceback_span") or ([row["root_line"]] * 2 if row["root_line"] else None)
            root = None if is_trap else row["root_line"]
            inside = None if is_trap or span is None else (span[0], span[1])
            wanted = (row["category"], row["component"], row["should_auto_restart"])
            cases.append(FailureCase(row["id"], content, *wanted, root, inside))
    return cases


# ---------------------------------------------------------------- measuring


def measure(cases: Iterable[FailureCase], method: Method, tools: Tools) -> dict[str, object]:
    """Run one method over the cases and count as the public scorer does."""
    return tally([(case, method(case.data, tools)) for case in cases])


def tally(pairs: Sequence[tuple[FailureCase, Answer]]) -> dict[str, object]:
    n: Counter[str] = Counter()
    for case, answer in pairs:
        is_trap = case.category is None
        n["logs"] += 1
        n["traps"] += is_trap
        inside = (
            case.span is not None and answer.root_line is not None and case.span[0] <= answer.root_line <= case.span[1]
        )
        n["root_in_traceback"] += inside
        n["root_exact"] += not is_trap and answer.root_line == case.root_line
        n["category"] += answer.category == case.category
        n["component"] += answer.component in (case.component, *(c or None for c in case.components))
        n["unsafe_restart"] += answer.restart and not case.restart
        n["missed_restart"] += case.restart and not answer.restart
        n["blame_on_trap"] += is_trap and answer.category is not None
        truth, said = case.category == "infrastructure", answer.category == "infrastructure"
        n["tp"] += truth and said
        n["fp"] += said and not truth
        n["fn"] += truth and not said
    failures = n["logs"] - n["traps"]
    if not failures:
        return dict(n)
    shares = {
        "root_in_traceback_frac": round(n["root_in_traceback"] / failures, 3),
        "category_frac": round(n["category"] / n["logs"], 3),
        "component_frac": round(n["component"] / n["logs"], 3),
        "infra_f1": round(2 * n["tp"] / max(1, 2 * n["tp"] + n["fp"] + n["fn"]), 3),
    }
    return {**shares, **n}


def left_out(sets: dict[str, list[FailureCase]], tools: Tools, *, write: bool) -> None:
    """Take the rules and training lines of each failure's own family away, then diagnose it."""
    matrices: dict[str, Counter[tuple[str, str]]] = {"known": Counter(), "left_out": Counter()}
    for name, cases in sets.items():
        if not cases:
            continue
        pairs: list[tuple[FailureCase, Answer]] = []
        families: set[str] = set()
        located_again = 0
        for case, family, fewer in _each_without(cases, tools):
            known, answer = whole(case.data, tools), whole(case.data, fewer)
            pairs.append((case, answer))
            families |= {family} - {None}
            located_again += answer.root_line == known.root_line
            for setting, said in (("known", known), ("left_out", answer)):
                if case.category is not None:
                    category = Category(said.category) if said.category else None
                    matrices[setting][case.category, answer_key(category, is_restarted=said.restart)] += 1
        result = tally(pairs)
        result["families_left_out"] = len(families)
        result["same_root_as_with_the_family"] = located_again
        report("families left out", name, result)
        misses = [c.name for c, a in pairs if a.category != c.category]
        report("misses", name, {"category": misses})
    if write:
        _write_confusion(matrices)


def calibrate(sets: dict[str, list[FailureCase]], tools: Tools, *, write: bool) -> None:
    """How sure answers may be: what was guessed, what a table says that saw other families, or other logs, only."""
    rows = {
        name: _calibration_rows(cases, tools) + _calibration_rows(cases, tools, without=False)
        for name, cases in sets.items()
        if cases
    }
    everything = [row for name in rows for row in rows[name]]
    version = tools.rules.version
    for name, mine in rows.items():
        others = [row for name_ in rows for row in rows[name_] if name_ != name]
        table = fitting.fit(others, version=version, date="", source="the other logs") if others else None
        for setting, is_known in (("family left out", False), ("nothing left out", True)):
            said_of = [row for row in mine if row.is_known is is_known]
            where = f"{name}, {setting}"
            report("grounds", where, {"grounds": fitting.by_ground(said_of)})
            report("reliability as guessed before", where, fitting.reliability(said_of, fitting.guessed))
            report("reliability cross-fitted", where, fitting.cross_fitted_reliability(said_of, everything))
            if table is not None:
                measured = fitting.reliability(said_of, fitting.applied(table))
                report("reliability by the other logs", where, measured)
    if write:
        today = datetime.now(UTC).date().isoformat()
        source = "python -m benchmarks.failures calibrate --write; logs: " + ", ".join(
            f"{sum(not row.is_known for row in mine)} {name}" for name, mine in rows.items()
        )
        document = calibration_to_json(fitting.fit(everything, version=version, date=today, source=source))
        (_PACKAGE / "calibration.json").write_text(json.dumps(document, indent=1) + "\n")


def _calibration_rows(cases: Sequence[FailureCase], tools: Tools, *, without: bool = True) -> list[fitting.Row]:
    """The answers to failures and endings, with the own family of each taken away; none where nothing was answered."""
    rows: list[fitting.Row] = []
    for case, family, fewer in _each_without(cases, tools):
        answer = whole(case.data, fewer if without else tools, fitting.certain())
        if answer.ground is not None:
            parts = (case.component, *(c or None for c in case.components))
            is_right = answer.category == case.category and answer.component in parts
            where = (family or case.name, answer.ground, answer.support_frac, answer.confidence)
            rows.append(fitting.Row(*where, is_right, is_known=not without))
    return rows


def _each_without(cases: Sequence[FailureCase], tools: Tools) -> Iterator[tuple[FailureCase, str | None, Tools]]:
    """Each case with its family and the tools without it."""
    for case in cases:
        found = scan(raws(case.data), detect_labels_in(case.data), tools.judge)
        family = _family_of(locate(found, tools.harmless))
        yield case, family, tools if family is None else _without(family)


def _family_of(located: Located) -> str | None:
    return located.root.verdict.family_name if located.root is not None else None


@cache
def _without(family: str) -> Tools:
    tools, corpus = shipped_tools(), _corpus()
    gone = [rule for rule in tools.rules.rules if rule.family is not None and rule.family.name == family]
    kept = tuple(line for line in corpus.lines if not any(rule.matches(line.text) for rule in gone))
    return replace(tools, rules=tools.rules.without([family]), model=train(replace(corpus, lines=kept)))


@cache
def _corpus() -> Corpus:
    return build_corpus()


def _write_confusion(matrices: dict[str, Counter[tuple[str, str]]]) -> None:
    rows: dict[str, dict[str, dict[str, int]]] = {}
    for setting, counts in matrices.items():
        rows[setting] = {}
        for (true, answer), count in sorted(counts.items()):
            rows[setting].setdefault(true, {})[answer] = count
    document = {"source": "benchmarks/failures.py left-out: generated and public logs together", "matrices": rows}
    (_PACKAGE / "confusion.json").write_text(json.dumps(document, indent=1) + "\n")


def speeds(cases: Sequence[FailureCase], tools: Tools, rounds: int = 5) -> None:
    """Lines a second of the whole path, of the hot path, and a sparse log of 10 GB; CPU seconds, with spread."""
    data = b"".join(case.data for case in cases[:12])
    lines = raws(data)
    labels = detect_labels_in(data)
    whole_s = [_cpu(lambda: scan(lines, labels, tools.judge)) for _ in range(rounds)]
    first_look_s = [_cpu(lambda: [is_hot(line.data) for line in lines]) for _ in range(rounds)]
    report("speed", "scan", {"lines": len(lines), "lines_per_cpu_s": _spread(len(lines), whole_s)})
    report("speed", "first look", {"lines": len(lines), "lines_per_cpu_s": _spread(len(lines), first_look_s)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sparse.log"
        healthy = next(case for case in cases if case.root_line is not None)
        with path.open("wb") as file:
            head = b"".join(line.data + b"\n" for line in raws(healthy.data)[: (healthy.root_line or 1) - 20])
            for part in range(10):
                file.seek(part * (1 << 30))
                file.write(head)
            file.seek(10 << 30)
            file.write(b"\n" + healthy.data)
        walls = []
        found = diagnose_log(path, tools)
        for _ in range(rounds):
            began = time.perf_counter()
            found = diagnose_log(path, tools)
            walls.append(time.perf_counter() - began)
        report(
            "speed",
            "sparse log of 10 GB",
            {
                "wall_s": round(statistics.fmean(walls), 3),
                "sd_s": round(statistics.pstdev(walls), 3),
                "read_frac": found.bytes_read / found.size,
                "path": found.path,
                "root_found": found.root_text is not None,
            },
        )


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _spread(count: int, seconds: Sequence[float]) -> dict[str, int]:
    rates = [count / max(s, 1e-9) for s in seconds]
    return {"mean": round(statistics.fmean(rates)), "sd": round(statistics.pstdev(rates))}


def report(what: str, name: str, result: dict[str, object]) -> None:
    print(json.dumps({"what": what, "set": name, **result}), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
