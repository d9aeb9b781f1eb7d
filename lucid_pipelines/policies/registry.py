"""Names of policies and how each is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from inspect import signature

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.policies.base import Policy
from lucid_pipelines.policies.fifo import Fifo
from lucid_pipelines.policies.horus import Horus
from lucid_pipelines.policies.lucid import Lucid
from lucid_pipelines.policies.pollux import Pollux
from lucid_pipelines.policies.qssf import Qssf
from lucid_pipelines.policies.sia import Sia
from lucid_pipelines.policies.sjf import Sjf
from lucid_pipelines.policies.srtf import Srtf
from lucid_pipelines.policies.standalone import Standalone
from lucid_pipelines.policies.tiresias import Tiresias

_BUILDERS: dict[str, Callable[..., Policy]] = {
    "fifo": Fifo,
    "sjf": Sjf,
    "qssf": Qssf,
    "standalone": Standalone,
    "tiresias": Tiresias,
    "lucid": Lucid,
    "srtf": Srtf,
    "horus": Horus,
    "pollux": Pollux,
    "sia": Sia,
}

_NO_RULES = dict.fromkeys(("sharing_score", "split_unstable", "no_distributed", "remaining_time"), False)

_VARIANTS: dict[str, Mapping[str, object]] = {
    "lucid:no_packing": {"pack": False},
    "lucid:no_estimator": {"use_estimates": False, "remaining_time": False},
    # Bin packing: whatever fits into the memory, whenever; still two jobs of equal demand at most.
    "lucid:naive_packing": {**_NO_RULES, "share_first": True, "off_below_jobs": -1.0, "apathetic_below_jobs": -1.0},
    "lucid:no_profiler": {"profiler_vc": None},
    "lucid:static_profiler": {"time_aware": False},
    # The published artifact's rules (docs/lucid-vs-artifact.md); its profiler runs apart, before the replay.
    "lucid:artifact": {
        "share_first": True,
        "memory_margin_frac": 0.0,
        "memory_step_mib": 1.0,
        "full_gpu_memory_mib": 24_576.0,
        "min_remaining_s": 0.0,
        "credit_done": False,
        "mode_interval_s": 100.0,
        "profiler_vc": None,
    },
}


def names() -> tuple[str, ...]:
    """Every name that ``get`` takes; those that are usually compared come first and stand together."""
    return (*_BUILDERS, *_VARIANTS)


def variant_of(name: str) -> tuple[str, ...]:
    """The settings that a variant's name has fixed."""
    return tuple(_VARIANTS.get(name, ()))


def settings_of(name: str) -> tuple[str, ...]:
    """The settings that a policy takes."""
    return tuple(_places(_builder(name)))


def get(name: str, **settings: object) -> Policy:
    """Build a policy, e.g. ``get("fifo")`` or ``get("lucid:no_packing", fallback_duration_s=600)``.

    Policies that never preempt take ``backfill``, ``max_overtakes`` and ``max_wait_s`` as well.

    Raises:
        InputError: no such policy; the nearest name is given.
        InputError: it has no such setting; the nearest one is given.
    """
    builder = _builder(name)
    places = _places(builder)
    for key in settings:
        if key not in places:
            hint = did_you_mean(key, places)
            raise InputError(f"{name} takes the settings {', '.join(places) or 'none'}{hint}; not {key!r}")
    plain: dict[str, object] = {}
    groups: dict[str, dict[str, object]] = {}
    for key, value in {**_VARIANTS.get(name, {}), **settings}.items():
        parameter = places[key]
        if parameter is None:
            plain[key] = value
        else:
            groups.setdefault(parameter, {})[key] = value
    defaults = signature(builder).parameters
    rules = {key: replace(defaults[key].default, **values) for key, values in groups.items()}
    return builder(name, **plain, **rules)


def _places(builder: Callable[..., Policy]) -> dict[str, str | None]:
    """Each setting, and the parameter that it is a field of (``None`` = a parameter itself)."""
    found: dict[str, str | None] = {}
    for name, parameter in signature(builder).parameters.items():
        if is_dataclass(parameter.default):
            found.update({item.name: name for item in fields(parameter.default)})
        elif name != "name":
            found[name] = None
    return found


def _builder(name: str) -> Callable[..., Policy]:
    base = name.partition(":")[0]
    if base not in _BUILDERS or (name != base and name not in _VARIANTS):
        known = names()
        raise InputError(f"policies are {', '.join(known)}{did_you_mean(name, known)}; not {name!r}")
    return _BUILDERS[base]
