"""Job names of generated traces: recurrent, but not always the same as the code behind them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

NUMBERED_FRAC = 0.25
"""Templates whose name carries the number of the code version."""
RENAMED_FRAC = 0.12
"""Templates that get another name after some runs, with the same code."""
SHARED_FRAC = 0.10
"""Templates that go by the name of an earlier template of their user."""

_VERBS = ("train", "finetune", "pretrain", "eval", "sweep", "debug", "distill", "test")
_SIGHT = ("det", "seg", "cls", "face", "ocr", "pose", "track", "depth", "flow", "gan")
_REST = ("asr", "tts", "nmt", "lm", "qa", "rec", "ctr", "rl", "nerf", "clip")
_THINGS = (*_SIGHT, *_REST)
_RENAME_WITHIN_RUNS = 40

Ints = npt.NDArray[np.int64]


def template_names(user: Ints, template: Ints, number: Ints, version: Ints, seed: int) -> pd.Categorical:
    """A name for every run.

    Args:
        user: owner of each template.
        template, number, version: of each run: its template, how many runs came before, its code version.
    """
    rng = np.random.default_rng([seed, 1])
    count = len(user)
    kind = rng.random(count)
    is_numbered, is_renamed = kind < NUMBERED_FRAC, kind > 1 - RENAMED_FRAC
    rename_at = rng.integers(3, _RENAME_WITHIN_RUNS, count)
    base = _base_names(user, rng)
    renamed = is_renamed[template] & (number >= rename_at[template])
    variant = np.where(renamed, 1, np.where(is_numbered[template], 2 + version, 0))
    codes, keys = pd.factorize(template * (int(variant.max()) + 1) + variant)
    width = int(variant.max()) + 1
    texts = [_variant(base[key // width], key % width) for key in keys.tolist()]
    labels, categories = pd.factorize(np.array(texts, dtype=object))
    return pd.Categorical.from_codes(labels[codes], categories=list(categories))


def _base_names(user: Ints, rng: np.random.Generator) -> list[str]:
    count = len(user)
    verb, thing = rng.integers(0, len(_VERBS), count), rng.integers(0, len(_THINGS), count)
    index = np.arange(count) - np.r_[0, np.flatnonzero(np.diff(user)) + 1][np.cumsum(np.r_[0, np.diff(user) != 0])]
    shares = (rng.random(count) < SHARED_FRAC) & (index > 0)
    parts = zip(verb.tolist(), thing.tolist(), index.tolist(), strict=True)
    names = [f"{_VERBS[v]}_{_THINGS[t]}_{i:02d}" for v, t, i in parts]
    for i in np.flatnonzero(shares).tolist():
        names[i] = names[i - 1]
    return names


def _variant(base: str, variant: int) -> str:
    if variant == 0:
        return base
    return f"{base}_final" if variant == 1 else f"{base}_v{variant - 1}"
