"""Score the advisor's reading of public training jobs: per field right, wrong and missing.

    python benchmarks/advisor.py --truth advisor_truth.jsonl --repos FOLDER [--json] [--only ID ...]

FOLDER holds one checkout per repository, named ``owner+name``, at the commit that the truth names. Each
line of the truth is one job: repository, command, facts, also-acceptable values and the fields that cannot
be determined. Repositories are only read.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.fields.optimisation import optimiser_name
from lucid_pipelines.advisor.fields.vocabulary import dataset_of, family_of
from lucid_pipelines.advisor.metadata import FieldName, JobMetadata

FIELDS = (
    "model", "task_type", "dataset", "iterations", "iteration_type", "batch_size", "batch_size_per_device",
    "grad_accumulation", "learning_rate", "effective_learning_rate", "optimizer", "gpus_per_node", "nodes",
    "precision", "d_model", "layers", "seq_len", "gpus_total",
)  # fmt: skip
KEY_FIELDS = ("model", "dataset", "iterations", "batch_size", "learning_rate", "gpus_per_node")
_SIZES = {
    "tiny": "t",
    "small": "s",
    "base": "b",
    "large": "l",
    "huge": "h",
    "giant": "g",
    "medium": "m",
    "xlarge": "xl",
}
_SAME_TASK = (
    {"instruction tuning", "supervised fine-tuning", "instruction fine-tuning"},
    {"language modelling", "text generation"},
    {"contrastive image-text", "vision-language"},
    {"object detection", "instance segmentation"},
)


@dataclass(slots=True)
class Tally:
    """Answers of one field."""

    right: int = 0
    wrong: int = 0
    missing: int = 0
    unasked: int = 0
    """Answered where the truth says nothing."""
    invented: int = 0
    """Answered where the truth says that it cannot be determined."""


@dataclass(slots=True)
class Score:
    """All tallies and the single mistakes."""

    fields: dict[str, Tally] = field(default_factory=lambda: {name: Tally() for name in FIELDS})
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Processor time of each job: other work on the machine does not count."""
    failures: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; the exit status says whether the goals were reached."""
    options = _parser().parse_args(arguments)
    rows = [json.loads(line) for line in Path(options.truth).read_text(encoding="utf-8").splitlines() if line.strip()]
    score = Score()
    for row in rows:
        if options.only and row["id"] not in options.only:
            continue
        score_job(row, Path(options.repos), score, ExtractionLimits(wall_s=options.wall))
    report = summary(score)
    print(json.dumps(report, indent=1) if options.json else text_report(report, options.verbose))
    return 0 if report["goals"]["met"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", required=True)
    parser.add_argument("--repos", required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--wall", type=float, default=15.0, help="time box of one job in seconds")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="list every mistake and missing field")
    return parser


def score_job(row: Mapping[str, Any], repos: Path, score: Score, limits: ExtractionLimits) -> None:
    """Read one job and compare it with its truth."""
    root = repos / str(row["repo"]).replace("/", "+")
    if not root.is_dir():
        score.failures.append(f"{row['id']}: no checkout at {root}")
        return
    launch = LaunchDescription(shlex.split(row["command"]), entry=row.get("path"))
    started = time.process_time()
    try:
        metadata = extract_metadata(root, launch, limits)
    except Exception as error:  # noqa: BLE001  a crash is a result of this benchmark
        score.failures.append(f"{row['id']}: {type(error).__name__}: {error}")
        return
    score.seconds.append(time.process_time() - started)
    undetermined = undetermined_fields(row.get("undetermined") or [])
    for name in FIELDS:
        _score_field(row, name, metadata, undetermined, score)


def _score_field(
    row: Mapping[str, Any], name: str, metadata: JobMetadata, undetermined: set[str], score: Score
) -> None:
    truth = row.get(name, row.get("extra", {}).get(name))
    accepted = list(row.get("also_acceptable", {}).get(name, []))
    answer = metadata.value(FieldName(name))
    tally = score.fields[name]
    possible = [value for value in (truth, *accepted) if value is not None]
    if answer is None:
        # A field that may be missing is not missed.
        tally.missing += truth is not None and None not in accepted
        if truth is not None:
            found = metadata.missing.get(FieldName(name))
            score.mistakes.append({"id": row["id"], "field": name, "verdict": "missing", "truth": truth,
                "reason": found.reason if found else None})  # fmt: skip
        return
    if any(matches(name, answer, value) for value in possible):
        tally.right += 1
        return
    if truth is None:
        invented = name in undetermined
        tally.invented += invented
        tally.unasked += not invented
        if not invented:
            return
    else:
        tally.wrong += 1
    evidence = [str(item) for item in metadata.fields[FieldName(name)].evidence[:2]]
    verdict = "wrong" if truth is not None else "invented"
    score.mistakes.append({"id": row["id"], "field": name, "verdict": verdict, "truth": truth, "answer": answer,
        "evidence": evidence})  # fmt: skip


def undetermined_fields(notes: Iterable[str]) -> set[str]:
    """Names of the fields that the truth calls undeterminable, out of its short notes."""
    names: set[str] = set()
    for note in notes:
        names.update(name for name in FIELDS if note.startswith(name))
        if note.startswith(("gpus", "accelerators")):
            names.update(("gpus_per_node", "gpus_total"))
        if re.match(r"gpus and nodes|accelerators", note):
            names.add("nodes")
    return names


# ---------------------------------------------------------------------- comparing


def matches(name: str, answer: object, truth: object) -> bool:
    """Whether an answer says the same as the truth."""
    if isinstance(truth, int | float) and not isinstance(truth, bool):
        number = _number(answer)
        return number is not None and abs(number - truth) <= 1e-4 * abs(truth)
    text, wanted = str(answer), str(truth)
    if name == "model":
        return same_model(text, wanted)
    if name == "dataset":
        return same_dataset(text, wanted)
    if name == "task_type":
        return text == wanted or any({text, wanted} <= group for group in _SAME_TASK)
    if name == "optimizer":
        return same_optimizer(text, wanted)
    return text.lower() == wanted.lower()


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(str(value))
    except ValueError:
        return None


def same_model(answer: str, truth: str) -> bool:
    """The same family, and no size, depth or adapter that contradicts."""
    mine, other = name_tokens(answer), name_tokens(truth)
    if not mine or not other:
        return False
    first, second = family_of(answer), family_of(truth)
    same_family = first is not None and second is not None and first.name == second.name
    shared = set(mine) & set(other)
    related = same_family or "".join(mine) in "".join(other) or "".join(other) in "".join(mine)
    if not related and len(shared) < 0.5 * min(len(set(mine)), len(set(other))):
        return False
    return not _contradict(mine, other)


def name_tokens(text: str) -> list[str]:
    """A name as tokens: ``resnet50`` → resnet, 50; ``vit_small`` → vit, s."""
    text = re.sub(r"^[\w.\-]+/(?=[A-Za-z])", "", text.strip()) if text.count("/") == 1 else text
    parts = re.findall(
        r"\d+(?:\.\d+)?[bm](?![a-z])|\d+(?:\.\d+)?|[a-z]+", text.lower().replace("-", " ").replace("_", " ")
    )
    return [_SIZES.get(str(part), str(part)) for part in parts]


def _contradict(mine: list[str], other: list[str]) -> bool:
    """Both names give a size and the sizes differ."""
    for pattern in (r"\d+(?:\.\d+)?[bm]", r"[tsblhgm]|xl"):
        one = {token for token in mine if re.fullmatch(pattern, token)}
        two = {token for token in other if re.fullmatch(pattern, token)}
        if one and two and not one & two:
            return True
    depth = {token for token in mine if re.fullmatch(r"\d{2,3}", token)}
    wanted = {token for token in other if re.fullmatch(r"\d{2,3}", token)}
    return bool(depth and wanted and not depth & wanted)


def same_dataset(answer: str, truth: str) -> bool:
    """The same known dataset, or a name that one contains of the other."""
    first, second = dataset_of(answer), dataset_of(truth)
    if first is not None and second is not None:
        return first.name == second.name or first.name.startswith(second.name) or second.name.startswith(first.name)
    mine, other = name_tokens(answer), name_tokens(truth)
    joined, wanted = "".join(mine), "".join(other)
    if joined and wanted and (joined in wanted or wanted in joined):
        return True
    shared = {token for token in set(mine) & set(other) if len(token) > 2}
    if any(len(token) > 5 and token in joined for token in other):
        return True
    return len(shared) >= 0.5 * max(1, min(len(set(mine)), len(set(other)))) or ("de" in mine and "de" in other)


def same_optimizer(answer: str, truth: str) -> bool:
    """The same update rule; fused and distributed variants count as the rule that they compute."""

    def plain(text: str) -> str:
        known = optimiser_name(text) or text
        letters = re.sub(r"[^a-z0-9]", "", known.lower())
        return re.sub(
            r"^(fused|distributedfused|deepspeedcpu|decoupled|paged|hybrid)|(8bit|bnb8bit|torch|fused)$", "", letters
        )

    return plain(answer) == plain(truth)


# ---------------------------------------------------------------------- reporting


def summary(score: Score) -> dict[str, Any]:
    """Rates and goals of a scored run."""
    fields: dict[str, dict[str, Any]] = {}
    totals: Counter[str] = Counter()
    for name, tally in score.fields.items():
        asked = tally.right + tally.wrong + tally.missing
        answered = tally.right + tally.wrong
        fields[name] = {
            "right": tally.right,
            "wrong": tally.wrong,
            "missing": tally.missing,
            "unasked": tally.unasked,
            "invented": tally.invented,
            "answered_frac": round(answered / asked, 3) if asked else None,
            "right_frac": round(tally.right / answered, 3) if answered else None,
        }
        totals.update(
            {"right": tally.right, "wrong": tally.wrong, "missing": tally.missing, "invented": tally.invented}
        )
    answered = totals["right"] + totals["wrong"]
    precision = totals["right"] / answered if answered else 0.0
    coverage = {name: fields[name]["answered_frac"] for name in KEY_FIELDS}
    goals = {
        "right_of_answered": round(precision, 4),
        "answered_of_key_fields": coverage,
        "invented": totals["invented"],
        "met": precision >= 0.95
        and all(value is None or value >= 0.8 for value in coverage.values())
        and not totals["invented"],
    }
    seconds = sorted(score.seconds)
    timing = {
        "jobs": len(seconds),
        "p50_s": round(statistics.median(seconds), 3) if seconds else None,
        "p95_s": round(seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))], 3) if seconds else None,
        "max_s": round(seconds[-1], 3) if seconds else None,
    }
    return {"fields": fields, "goals": goals, "timing": timing, "failures": score.failures, "mistakes": score.mistakes}


def text_report(report: Mapping[str, Any], verbose: bool) -> str:
    """The report as lines."""
    lines = [
        f"{'field':24}{'right':>6}{'wrong':>6}{'missing':>8}{'unasked':>8}{'invented':>9}{'answered':>9}{'correct':>8}"
    ]
    for name, row in report["fields"].items():
        lines.append(
            f"{name:24}{row['right']:6}{row['wrong']:6}{row['missing']:8}{row['unasked']:8}{row['invented']:9}"
            f"{_share(row['answered_frac']):>9}{_share(row['right_frac']):>8}"
        )
    lines.append(f"goals: {json.dumps(report['goals'])}")
    lines.append(f"timing: {json.dumps(report['timing'])}")
    lines.extend(f"failed: {failure}" for failure in report["failures"])
    if verbose:
        order = {"wrong": 0, "invented": 1, "missing": 2}
        listed = sorted(report["mistakes"], key=lambda each: (order[each["verdict"]], each["field"]))
        lines.extend(json.dumps(item, ensure_ascii=False)[:260] for item in listed)
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


if __name__ == "__main__":
    sys.exit(main())
