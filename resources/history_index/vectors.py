"""Checks that every vector passes before it is stored or searched with (R-41)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from lucid_pipelines.domain.errors import InputError

NORM_TOLERANCE = 1e-2


def checked_question(vector: Sequence[float], dimension: int, k: int, as_of: datetime) -> NDArray[np.float32]:
    """The vector to look for, when the whole question can be answered; every index refuses the same ones.

    Raises:
        InputError: ``k`` is below one, ``as_of`` has no time zone, or ``checked_vector`` refuses the vector.
    """
    if k < 1:
        raise InputError(f"ask for at least one job: {k}")
    if as_of.tzinfo is None:
        raise InputError("as_of must carry a time zone")
    return checked_vector(vector, dimension)


def checked_vector(vector: Sequence[float], dimension: int) -> NDArray[np.float32]:
    """The vector as float32 of the right length, finite and normalised.

    Raises:
        InputError: it is of another dimension, holds NaN or infinity, or is not L2-normalised.
    """
    found = np.asarray(vector, dtype=np.float32)
    if found.shape != (dimension,):
        raise InputError(f"this index holds vectors of {dimension} numbers; got the shape {found.shape}")
    if not np.isfinite(found).all():
        raise InputError("a vector must be finite; this one holds NaN or infinity")
    length = float(np.linalg.norm(found))
    if abs(length - 1.0) > NORM_TOLERANCE:
        raise InputError(f"a vector must be L2-normalised; the length of this one is {length:.4g}")
    return found / np.float32(length)
