"""What a policy's reasons say, in words for people. The data itself is in ``--json`` and in the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lucid_pipelines.duration_text import one_unit_text

Facts = Mapping[str, Any]

_SCORES = {0: "light", 1: "medium", 2: "heavy"}
_RULE_NAMES = {
    "mode": "sharing is off now",
    "same_gpus": "it asks for another number of GPUs",
    "at_most_two": "two jobs share there already",
    "sharing_score": "together they would be too heavy, or it is not known how heavy",
    "memory_safe": "GPU memory would not do, or is not known",
    "split_unstable": "one of them is to stay alone",
    "no_distributed": "one of them runs over several nodes",
    "remaining_time": "their times do not fit, or are not known",
    "avoid_nodes": "it is kept off that node",
    "same_user": "they belong to different users",
}
"""Why a pair is not formed, by the rule that it breaks."""
_PACKING_MODES = {
    "off": "no pairs: modes.pack is off",
    "shadow": "pairs are only recorded, not formed: modes.pack is shadow",
    "approve": "pairs wait for a person's yes (`lucid actions`): modes.pack is approve",
    "live": "pairs are formed",
}


def broken_words(rule: str) -> str:
    """What it means that a pair breaks a rule."""
    return _RULE_NAMES.get(rule, rule.replace("_", " "))


def tell(reason: Facts) -> tuple[str, str]:
    """A reason as a short title and a sentence; one that nobody wrote words for is shown as it is."""
    rule = str(reason.get("rule"))
    words = _WORDS.get(rule)
    if words is None:
        return rule.replace("_", " "), ", ".join(f"{k}={v}" for k, v in reason.items() if k not in ("rule", "holds"))
    title, sentence = words
    text = sentence(reason)
    if "holds" in reason:
        text = ("yes" if reason["holds"] else "no") + f": {text}"
    return title, text


def _order(facts: Facts) -> str:
    duration, basis = facts.get("predicted_duration_s"), facts.get("basis")
    told = "nothing is known of it, so a site-wide guess stands" if basis == "fallback" else f"by {basis}"
    return f"{_gpu_time(facts.get('priority_gpu_s'))} ({facts.get('gpus')} GPU(s) × {_s(duration)}, {told})"


def _mode(facts: Facts) -> str:
    mode = {
        "default": "two jobs may share a GPU",
        "apathetic": "only light jobs share a GPU",
        "off": "nobody shares a GPU: few jobs are expected",
    }.get(str(facts.get("mode")), str(facts.get("mode")))
    if facts.get("forecast") == "missing":
        return f"{mode} (this site is too young for a forecast)"
    return f"{mode} ({_n(facts.get('jobs_ahead'))} jobs expected per ten minutes)"


def _no_partner(facts: Facts) -> str:
    count = facts.get("candidates") or 0
    broken = [(int(v), k.removeprefix("broken_")) for k, v in facts.items() if k.startswith("broken_")]
    if not count:
        return "no job runs beside which it could"
    told = "; ".join(f"{number} × {broken_words(rule)}" for number, rule in sorted(broken, reverse=True))
    return f"none of {count} running jobs: {told}" if told else f"one of {count} running jobs would do"


def _best(facts: Facts) -> str:
    broken = facts.get("broken")
    if not broken:
        return f"{facts.get('partner_job_id')}: nothing speaks against it"
    told = "; ".join(broken_words(rule) for rule in str(broken).split(", "))
    return f"{facts.get('partner_job_id')}, but {told}"


def _scores(facts: Facts) -> str:
    mine, other = facts.get("sharing_score"), facts.get("partner_sharing_score")
    if mine is None or other is None:
        whose = "this job's" if mine is None else "its partner's"
        return f"{whose} use of a GPU is not known yet, and what is not known is not packed"
    return (
        f"{_SCORES.get(mine, mine)} + {_SCORES.get(other, other)} ({mine} + {other}, at most {facts.get('capacity')})"
    )


def _memory(facts: Facts) -> str:
    parts = [facts.get("memory_peak_mib"), facts.get("partner_memory_peak_mib"), facts.get("gpu_memory_mib")]
    if None in parts:
        return "a peak of memory, or the GPU's size, is not known"
    return f"{parts[0]:.0f} + {parts[1]:.0f} of {parts[2]:.0f} MiB, {facts.get('margin_frac', 0):.0%} kept free"


def _times(facts: Facts) -> str:
    mine, left = facts.get("predicted_duration_s"), facts.get("partner_remaining_s")
    if mine is None or left is None:
        return "a duration is not known"
    bounds = f"at most {facts.get('max_ratio')} times as long; {_s(facts.get('min_remaining_s'))} must be left"
    return f"{_s(mine)} beside {_s(left)} that are left ({bounds})"


def _avoided(facts: Facts) -> str:
    if "gave_way" not in facts:  # a rule about a pair
        return str(facts.get("avoid_nodes") or "it avoids none")
    left_aside = "; left aside: no other node here could ever hold it" if facts["gave_way"] else ""
    return f"{facts.get('nodes')}{left_aside}"


def _proposed(facts: Facts) -> str:
    pair = f"to share the GPUs of {facts.get('partner_job_id')} (action {facts.get('action')})"
    if facts.get("mode") == "shadow":
        return f"{pair}; packing is only recorded here"
    return f"{pair}; a person said no" if facts.get("state") == "rejected" else f"{pair}; it waits for a person"


_WORDS: dict[str, tuple[str, Callable[[Facts], str]]] = {
    "predicted_gpu_time": ("place in the order", _order),
    "gpu_demand": ("place in the order", lambda f: f"{f.get('gpus')} GPU(s), fewest first"),
    "bounded_bypass": (
        "passed by",
        lambda f: (
            f"{f.get('overtaken_count')} later jobs (at most {f.get('max_overtakes')}), waiting {_s(f.get('waited_s'))}"
        ),
    ),
    "sharing_mode": ("sharing now", _mode),
    "packing_mode": ("on this site", lambda f: _PACKING_MODES.get(str(f.get("mode")), str(f.get("mode")))),
    "no_affine_partner": ("partners", _no_partner),
    "best_candidate": ("nearest partner", _best),
    "affine_pair": ("partner", lambda f: str(f.get("partner_job_id"))),
    "same_gpus": ("  same number of GPUs", lambda f: f"it asks for {f.get('gpus')}"),
    "at_most_two": ("  at most two on a GPU", lambda f: f"it would be number {f.get('jobs_on_gpu')}"),
    "sharing_score": ("  light enough together", _scores),
    "memory_safe": ("  memory suffices", _memory),
    "split_unstable": (
        "  both steady",
        lambda f: (
            "its partner is unsteady"
            if f.get("partner_is_unstable")
            else f"{'neither' if f.get('holds') else 'one of them'} is to stay alone"
        ),
    ),
    "no_distributed": (
        "  on one node",
        lambda f: "it needs several nodes" if f.get("is_distributed") else "both must fit on one node",
    ),
    "remaining_time": ("  times fit", _times),
    "avoid_nodes": ("  off nodes it avoids", _avoided),
    "same_user": ("  one user", lambda f: f"{f.get('user')} beside {f.get('partner_user')}"),
    "profile_smallest_first": ("place in the order", lambda f: f"{f.get('gpus')} GPU(s), fewest first"),
    "profile": ("profiling", lambda f: f"for at most {_s(f.get('window_s'))}; {f.get('waiting')} wait for it"),
    "consolidated_placement": (
        "placement",
        lambda f: f"{f.get('gpus')} GPU(s) on {f.get('nodes')} node(s); {f.get('gpus_free')} were free",
    ),
    "pack_proposed": ("proposed", _proposed),
    "kept_apart": (
        "alone for now",
        lambda f: (
            f"{f.get('jobs')}: a proposal is open, its node contradicted our books, or a pair was split there"
            f" less than {_s(f.get('cool_down_s'))} ago"
        ),
    ),
    "profile_window_over": ("profiled", lambda f: f"for {_s(f.get('ran_s'))} of {_s(f.get('window_s'))}"),
    "profiler_queue_long": (
        "profiling queue",
        lambda f: f"{f.get('waiting')} jobs wait, {f.get('idle_nodes')} idle nodes",
    ),
    "profiler_queue_short": ("profiling queue", lambda f: f"only {f.get('waiting')} jobs wait"),
}


def _s(value: object) -> str:
    return one_unit_text(value) if isinstance(value, int | float) else "an unknown time"


def _gpu_time(value: object) -> str:
    return f"{value / 3600:.2f} GPU-hours" if isinstance(value, int | float) else "unknown"


def _n(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "?"
