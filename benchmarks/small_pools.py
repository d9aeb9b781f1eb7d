"""Whether a small cluster should set a node aside for profiling: the average JCT with one over that with none.

``python benchmarks/small_pools.py [--seeds 5] [--json]``

Generated months of 1,000 to 8,000 jobs on fitted clusters of 4 to 49 nodes, at loads of 0.6 and 0.8. Printed by kind
of cluster: whether it has several virtual clusters, and the nodes of the largest one, which gives the node. The
claims are about the kinds for which ``placement.default_pool_nodes`` sets a node aside, and those for which it does
not.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import mean_of, report
from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.placement import default_pool_nodes
from lucid_pipelines.simulation import run_replay
from lucid_pipelines.traces import LoadedTrace, generate

SHAPES = ((1_000, 1), (2_000, 1), (4_000, 1), (8_000, 1), (2_000, 2), (4_000, 2), (4_000, 3), (6_000, 4), (8_000, 6))
"""Jobs and virtual clusters."""
LOADS = (0.6, 0.8)


def main() -> int:
    """Run the benchmark; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    by_kind: dict[str, list[float]] = defaultdict(list)
    by_default: dict[bool, list[float]] = defaultdict(list)
    for (jobs, vcs), load_frac, seed in itertools.product(SHAPES, LOADS, range(1, options.seeds + 1)):
        trace = generate(seed, jobs=jobs, vcs=vcs, load_frac=load_frac)
        nodes = () if trace.cluster is None else trace.cluster.nodes()
        ratio = _with_over_without(trace) if 4 <= len(nodes) < 50 else None
        if ratio is not None:
            by_kind[_kind(nodes)].append(ratio)
            by_default[default_pool_nodes(nodes) > 0].append(ratio)
    for kind, ratios in sorted(by_kind.items()) if not options.json else ():
        print(f"     {kind}: {len(ratios)} months, median {median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    name = "JCT with a pool over without, where the default is "
    return report(
        [
            mean_of(name + "a pool", by_default[True], at_most=1.0),
            mean_of(name + "none", by_default[False], at_least=1.0),
        ],
        as_json=options.json,
    )


def _with_over_without(trace: LoadedTrace) -> float | None:
    """``None`` when no node can be spared even if one is asked for: some job needs them all."""
    if trace.cluster is None:
        return None
    names = ["lucid:no_profiler", "lucid"]
    summaries = run_replay(trace.jobs, trace.cluster, names, settings={"lucid": {"profiler_nodes": 1}}).summaries
    without, with_pool = summaries
    if with_pool.fallbacks.get("no_profiler_nodes") or not without.avg_jct_s or not with_pool.avg_jct_s:
        return None
    return with_pool.avg_jct_s / without.avg_jct_s


def _kind(nodes: tuple[Node, ...]) -> str:
    sizes = Counter(node.vc for node in nodes)
    largest = max(sizes.values())
    size = "1 to 3" if largest < 4 else "4 to 9" if largest < 10 else "10 or more"
    return f"{'one virtual cluster' if len(sizes) == 1 else 'several, the largest'} of {size} nodes"


if __name__ == "__main__":
    sys.exit(main())
