"""Names of policies and how each is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import signature

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.policies.base import Policy
from lucid_pipelines.policies.fifo import Fifo
from lucid_pipelines.policies.lucid import Lucid
from lucid_pipelines.policies.qssf import Qssf
from lucid_pipelines.policies.queue_policy import Bypass
from lucid_pipelines.policies.sjf import Sjf
from lucid_pipelines.policies.srtf import Srtf
from lucid_pipelines.policies.tiresias import Tiresias

_BUILDERS: dict[str, Callable[..., Policy]] = {
    "fifo": Fifo,
    "sjf": Sjf,
    "srtf": Srtf,
    "qssf": Qssf,
    "tiresias": Tiresias,
    "lucid": Lucid,
}

_VARIANTS: dict[str, Mapping[str, object]] = {}

_BYPASS = tuple(item.name for item in fields(Bypass))


def names() -> tuple[str, ...]:
    """Every name that ``get`` takes."""
    return (*_BUILDERS, *_VARIANTS)


def settings_of(name: str) -> tuple[str, ...]:
    """The settings that a policy takes."""
    found: list[str] = []
    for key in signature(_builder(name)).parameters:
        found.extend(_BYPASS if key == "bypass" else [] if key == "name" else [key])
    return tuple(found)


def get(name: str, **settings: object) -> Policy:
    """Build a policy, e.g. ``get("fifo")`` or ``get("lucid:no_packing", fallback_duration_s=600)``.

    Policies that never preempt take ``backfill``, ``max_overtakes`` and ``max_wait_s`` as well.

    Raises:
        NotFoundError: no such policy; the nearest name is given.
        InputError: it has no such setting; the nearest one is given.
    """
    known = settings_of(name)
    for key in settings:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InputError(f"{name} takes the settings {', '.join(known) or 'none'}{hint}; not {key!r}")
    every: dict[str, object] = {**_VARIANTS.get(name, {}), **settings}
    bypass = {key: every.pop(key) for key in _BYPASS if key in every}
    if bypass:
        every["bypass"] = Bypass(**bypass)  # pyright: ignore[reportArgumentType]  (checked by the class)
    return _builder(name)(name, **every)


def _builder(name: str) -> Callable[..., Policy]:
    base = name.partition(":")[0]
    if base not in _BUILDERS or (name != base and name not in _VARIANTS):
        known = names()
        raise NotFoundError(f"policies are {', '.join(known)}{did_you_mean(name, known)}; not {name!r}")
    return _BUILDERS[base]
