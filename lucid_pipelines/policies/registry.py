"""Names of policies and how each is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.policies.base import Policy
from lucid_pipelines.policies.fifo import Fifo
from lucid_pipelines.policies.lucid import Lucid

_BUILDERS: dict[str, Callable[..., Policy]] = {"fifo": Fifo, "lucid": Lucid}

_VARIANTS: dict[str, Mapping[str, object]] = {}


def names() -> tuple[str, ...]:
    """Every name that ``get`` takes."""
    return (*_BUILDERS, *_VARIANTS)


def get(name: str, **settings: object) -> Policy:
    """Build a policy, e.g. ``get("fifo")`` or ``get("lucid:no_packing", fallback_duration_s=600)``.

    Raises:
        NotFoundError: no such policy; the nearest name is given.
        InputError: it has no such setting; the nearest one is given.
    """
    base = name.partition(":")[0]
    if base not in _BUILDERS or (name != base and name not in _VARIANTS):
        known = names()
        raise NotFoundError(f"policies are {', '.join(known)}{did_you_mean(name, known)}; not {name!r}")
    builder = _BUILDERS[base]
    known_settings = [key for key in signature(builder).parameters if key != "name"]
    for key in settings:
        if key not in known_settings:
            hint = did_you_mean(key, known_settings)
            raise InputError(f"{base} takes the settings {', '.join(known_settings) or 'none'}{hint}; not {key!r}")
    return builder(name, **{**_VARIANTS.get(name, {}), **settings})
