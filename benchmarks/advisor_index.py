"""Measure a history index: adding and filtered top-10 searches.

    python benchmarks/advisor_index.py [--url sqlite:///FILE | redis://…] [--jobs 100000] [--searches 300]

Fingerprints are made of the public vocabulary of models and datasets, embedded by the hash embedder; each
search asks for one task on one GPU family and class of GPU counts, as the advisor does. CPU time is measured, so
that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import ranges
from benchmarks.ranges import Claim, quantile
from lucid_pipelines.advisor.fields.vocabulary import DATASETS, FAMILIES
from lucid_pipelines.advisor.fingerprint import SCHEMA_VERSION, Fingerprint, Surroundings, fingerprint_of
from lucid_pipelines.advisor.metadata import FieldName, Scalar
from lucid_pipelines.domain.similarity import IndexEntry, PastJob, VectorSpace
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.ports import HistoryIndex
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from lucid_pipelines.resources.history_index import open_index

START = datetime(2026, 1, 1, tzinfo=UTC)
GPU_TYPES = ("A100", "V100", "H100", "T4")
BATCH = 500


def main() -> int:
    """Run the measurement; exit status 1 when a claim does not hold."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{Path(folder) / 'history.db'}"
        embedder = HashEmbedder()
        space = VectorSpace(embedder.name, embedder.dimension, SCHEMA_VERSION)
        rng = random.Random(options.seed)
        index = open_index(url, space)
        report: dict[str, object] = {"jobs": options.jobs, "load": os.getloadavg()[0], "index": type(index).__name__}
        report |= _add(index, embedder, _jobs(rng, options.jobs))
        fresh = open_index(url, space)
        report |= _search(fresh, embedder, rng, options.searches)
        report["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps(report, indent=1), file=sys.stderr)
    return ranges.report(_claims(report), as_json=options.json)


def _claims(found: dict[str, Any]) -> list[Claim]:
    added, searched = found["add_per_s"]["median"], found["search_ms"]
    return [
        Claim("jobs added a CPU-second, median", added, at_least=1_000, why="a history is imported in one go"),
        Claim("filtered top-10 search, p50 (CPU-ms)", searched["p50"], at_most=20),
        Claim("filtered top-10 search, p99 (CPU-ms)", searched["p99"], at_most=20, why="every submission asks once"),
        Claim("first search among jobs of a kind, p99 (CPU-ms)", found["first_of_kind_ms"]["p99"], at_most=100),
        Claim(
            "first search of a process (CPU-s)", found["first_search_s"], at_most=2, why="every batch is a new process"
        ),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _add(index: HistoryIndex, embedder: HashEmbedder, jobs: Iterator[PastJob]) -> dict[str, object]:
    rates: list[float] = []
    embedding_s = 0.0
    began = time.process_time()
    while batch := list(itertools.islice(jobs, BATCH)):
        started = time.process_time()
        vectors = embedder.embed([job.fingerprint for job in batch])
        embedded = time.process_time()
        index.add([IndexEntry(job, vector) for job, vector in zip(batch, vectors, strict=True)])
        embedding_s += embedded - started
        rates.append(len(batch) / (time.process_time() - started))
    return {
        "add_per_s": {"median": round(statistics.median(rates)), "p1": round(quantile(rates, 0.01))},
        "add_total_s": round(time.process_time() - began, 1),
        "embedding_s": round(embedding_s, 1),
    }


def _search(index: HistoryIndex, embedder: HashEmbedder, rng: random.Random, count: int) -> dict[str, object]:
    as_of = START + timedelta(days=400)
    questions = list(_fingerprints(rng, count + 1))
    vectors = embedder.embed([each.text for each in questions])
    started = time.process_time()
    index.search(vectors[0], 10, as_of, questions[0].hard_filter, 0.85)
    first_s = time.process_time() - started
    times: list[float] = []
    firsts: list[float] = []
    eligible: list[int] = []
    for question, vector in zip(questions[1:], vectors[1:], strict=True):
        started = time.process_time()
        index.search(vector, 10, as_of, question.hard_filter, 0.85)
        firsts.append((time.process_time() - started) * 1e3)
    for question, vector in zip(questions[1:], vectors[1:], strict=True):
        started = time.process_time()
        found = index.search(vector, 10, as_of, question.hard_filter, 0.85)
        times.append((time.process_time() - started) * 1e3)
        eligible.append(found.eligible_count)
    return {
        "first_search_s": round(first_s, 2),
        "first_of_kind_ms": {name: round(quantile(firsts, q), 2) for name, q in (("p50", 0.5), ("p99", 0.99))},
        "search_ms": {name: round(quantile(times, q), 2) for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        "eligible": {"median": statistics.median(eligible), "max": max(eligible)},
    }


def _jobs(rng: random.Random, count: int) -> Iterator[PastJob]:
    for number, found in enumerate(_fingerprints(rng, count)):
        ended = START + timedelta(seconds=300 * number)
        yield PastJob(
            f"job-{number}", found.text, ended - timedelta(hours=3), ended, Outcome.COMPLETED,
            float(rng.randint(60, 100_000)), found.task_type, found.gpu_type, found.gpus,
        )  # fmt: skip


def _fingerprints(rng: random.Random, count: int) -> Iterator[Fingerprint]:
    models = [family for family in FAMILIES if family.task is not None]
    for _ in range(count):
        model = rng.choice(models)
        facts: dict[FieldName, Scalar] = {
            FieldName.MODEL: f"{model.name}-{rng.randint(1, 400)}",
            FieldName.TASK_TYPE: str(model.task),
            FieldName.DATASET: rng.choice(DATASETS).name,
            FieldName.ITERATIONS: rng.choice((1, 3, 10, 30, 90, 100, 300)) * rng.choice((1, 10, 1000)),
            FieldName.ITERATION_TYPE: rng.choice(("epochs", "steps")),
            FieldName.BATCH_SIZE: 1 << rng.randint(2, 12),
            FieldName.LEARNING_RATE: rng.choice((1e-3, 3e-4, 1e-4, 0.1)),
            FieldName.OPTIMIZER: rng.choice(("SGD", "Adam", "AdamW")),
            FieldName.PRECISION: rng.choice(("fp32", "fp16", "bf16")),
        }
        yield fingerprint_of(facts, Surroundings(rng.choice(GPU_TYPES), rng.choice((1, 1, 1, 2, 4, 8, 8, 16))))


if __name__ == "__main__":
    sys.exit(main())
