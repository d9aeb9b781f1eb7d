"""Measured facts about sharing a GPU: configurations run alone, and how fast pairs of them ran together."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.models.artefacts.document import data_sha256


@dataclass(frozen=True, slots=True)
class Configuration:
    """A training configuration, profiled alone on a GPU.

    Attributes:
        name: unique, e.g. ``ResNet18/CIFAR-10/64/fp32``.
        workload: what is left out together when a model is judged: the network, in all its configurations.
    """

    name: str
    workload: str
    profile: Profile
    amp: bool | None = None


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """Speeds of two configurations on one GPU, each relative to itself alone."""

    first: str
    second: str
    first_speed_frac: float
    second_speed_frac: float


@dataclass(frozen=True)
class PairTable:
    """Pairs between profiled configurations.

    Attributes:
        left_out: rows that could not be used, by reason.
    """

    configurations: tuple[Configuration, ...]
    pairs: tuple[MeasuredPair, ...]
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, configurations: Iterable[Configuration], pairs: Iterable[MeasuredPair]) -> PairTable:
        """Keep pairs of known configurations with usable speeds; count the rest.

        Raises:
            InputError: two configurations of one name, or no pair is left.
        """
        kept = tuple(configurations)
        names = Counter(item.name for item in kept)
        twice = sorted(name for name, count in names.items() if count > 1)
        if twice:
            raise InputError(f"every configuration needs a name of its own; twice: {', '.join(twice)}")
        left_out: Counter[str] = Counter()
        usable: list[MeasuredPair] = []
        for pair in pairs:
            reason = _reason_against(pair, names)
            if reason:
                left_out[reason] += 1
            else:
                usable.append(pair)
        if not usable:
            raise InputError(
                f"a packing model needs measured pairs of profiled configurations; left out: {dict(left_out)}"
            )
        return cls(kept, tuple(usable), dict(left_out))

    @property
    def workloads(self) -> tuple[str, ...]:
        """Workloads that stand in at least one pair."""
        by_name = {item.name: item.workload for item in self.configurations}
        return tuple(sorted({by_name[name] for pair in self.pairs for name in (pair.first, pair.second)}))

    def arrays(self) -> PairArrays:
        return PairArrays.of(self)

    def sha256(self) -> str:
        arrays = self.arrays()
        return data_sha256(profile_matrix(self.configurations), np.c_[arrays.first, arrays.second], arrays.speeds)


@dataclass(frozen=True)
class PairArrays:
    """The table as arrays over pairs: positions of both configurations, speeds (pairs × 2), workloads."""

    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    speeds: npt.NDArray[np.float64]
    first_workload: npt.NDArray[np.str_]
    second_workload: npt.NDArray[np.str_]

    @classmethod
    def of(cls, table: PairTable) -> PairArrays:
        position = {item.name: index for index, item in enumerate(table.configurations)}
        workload = np.array([item.workload for item in table.configurations])
        first = np.array([position[pair.first] for pair in table.pairs], dtype=np.intp)
        second = np.array([position[pair.second] for pair in table.pairs], dtype=np.intp)
        speeds = np.array([(pair.first_speed_frac, pair.second_speed_frac) for pair in table.pairs])
        return cls(first, second, speeds, workload[first], workload[second])

    @property
    def mean_speed(self) -> npt.NDArray[np.float64]:
        return self.speeds.mean(axis=1)

    def between(self, workloads: Sequence[str]) -> npt.NDArray[np.bool_]:
        """With one workload all its pairs; with two the pairs between them."""
        one, two = self.first_workload, self.second_workload
        if len(workloads) == 1:
            return self.touches(workloads)
        a, b = workloads
        return ((one == a) & (two == b)) | ((one == b) & (two == a))

    def touches(self, workloads: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which pairs hold a configuration of one of these workloads."""
        wanted = list(workloads)
        return np.isin(self.first_workload, wanted) | np.isin(self.second_workload, wanted)


PROFILE_FEATURES: tuple[str, ...] = ("gpu_util_pct", "memory_util_pct", "memory_peak_mib", "amp")


def profile_row(profile: Profile | None, amp: bool | None) -> list[float]:
    """``PROFILE_FEATURES`` of a job; unknown is NaN."""
    values = (
        (None, None, None)
        if profile is None
        else (profile.gpu_util_pct, profile.memory_util_pct, profile.memory_peak_mib)
    )
    return [*(math.nan if v is None else float(v) for v in values), math.nan if amp is None else float(amp)]


def profile_matrix(configurations: Sequence[Configuration]) -> npt.NDArray[np.float64]:
    return np.array([profile_row(item.profile, item.amp) for item in configurations], dtype=np.float64).reshape(-1, 4)


_SOLO_COLUMNS = ("model", "dataset", "batchsize", "amp", "gpu_util", "gmem_util", "gmem")
_PAIR_COLUMNS = tuple(f"{name}{side}" for side in (1, 2) for name in ("model", "dataset", "batchsize", "amp", "speed"))


def read_pair_table(pairs: Path, profiles: Path) -> PairTable:
    """Read two CSV files in the layout of the published tables.

    ``profiles``: ``model,dataset,batchsize,amp,gpu_util,gmem_util,gmem`` (percent and MiB, run alone);
    ``pairs``: ``model1,dataset1,batchsize1,amp1,speed1,model2,…,speed2`` (relative to alone).

    Raises:
        InputError: a file or column is missing, a number is wrong, or nothing usable is left.
    """
    configurations = [_configuration(row, profiles, line) for line, row in _rows(profiles, _SOLO_COLUMNS)]
    measured = [_pair(row, pairs, line) for line, row in _rows(pairs, _PAIR_COLUMNS)]
    return PairTable.of(configurations, measured)


def _configuration(row: Mapping[str, str], path: Path, line: int) -> Configuration:
    try:
        util_pct, memory_util_pct, memory_mib = (float(row[column]) for column in ("gpu_util", "gmem_util", "gmem"))
        measured = [util_pct, memory_util_pct, memory_mib]
        if not all(math.isfinite(value) and value >= 0 for value in measured):
            raise ValueError(f"a profile holds finite numbers from 0; got {measured}")
        profile = Profile(util_pct, memory_util_pct, memory_mib, source="measured")
        return Configuration(_name(row, ""), row["model"], profile, _flag(row["amp"]))
    except (ValueError, TypeError, AttributeError) as error:  # a short line has None in its last columns
        raise InputError(f"a value is wrong or missing in {path}, line {line}: {error}") from error


def _pair(row: Mapping[str, str], path: Path, line: int) -> MeasuredPair:
    try:
        return MeasuredPair(_name(row, "1"), _name(row, "2"), float(row["speed1"]), float(row["speed2"]))
    except (ValueError, TypeError, AttributeError) as error:  # a short line has None in its last columns
        raise InputError(f"a value is wrong or missing in {path}, line {line}: {error}") from error


def _name(row: Mapping[str, str], side: str) -> str:
    precision = "amp" if _flag(row[f"amp{side}"]) else "fp32"
    return f"{row[f'model{side}']}/{row[f'dataset{side}']}/{row[f'batchsize{side}']}/{precision}"


def _flag(text: str) -> bool:
    if text.strip().lower() in ("1", "true"):
        return True
    if text.strip().lower() in ("0", "false"):
        return False
    raise ValueError(f"amp is 0 or 1; got {text!r}")


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            for column in columns:
                if column not in found:
                    hint, has = did_you_mean(column, found), ", ".join(found)[:200] or "none"
                    raise InputError(f"{path} needs the column {column!r}{hint}; it has {has}")
            return list(enumerate(reader, start=2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"the table cannot be read: {path}: {error}") from error


def _reason_against(pair: MeasuredPair, names: Mapping[str, int]) -> str | None:
    if pair.first not in names or pair.second not in names:
        return "configuration_not_profiled"
    speeds = (pair.first_speed_frac, pair.second_speed_frac)
    if not all(math.isfinite(speed) for speed in speeds):
        return "speed_not_finite"
    if min(speeds) <= 0:
        return "speed_not_positive"
    return None
