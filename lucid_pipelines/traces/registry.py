"""Every format that can be loaded."""

from __future__ import annotations

from collections.abc import Mapping

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.traces import (
    acme,
    alibaba_openb,
    alibaba_pai,
    canonical,
    gavel,
    helios,
    helios_venus,
    lucid_artifact,
    philly_csv,
    philly_json,
    sia,
    slurm,
)
from lucid_pipelines.traces.contract import Contract
from lucid_pipelines.traces.table import Loader

_ALL: tuple[Loader, ...] = (
    canonical.LOADER,
    helios.LOADER,
    helios_venus.LOADER,
    lucid_artifact.LOADER,
    philly_json.LOADER,
    philly_csv.LOADER,
    acme.LOADER,
    alibaba_pai.LOADER,
    alibaba_openb.LOADER,
    sia.LOADER,
    gavel.LOADER,
    slurm.LOADER,
)
LOADERS: Mapping[str, Loader] = {loader.contract.format: loader for loader in _ALL}
CONTRACTS: tuple[Contract, ...] = tuple(loader.contract for loader in _ALL)
FORMATS: tuple[str, ...] = tuple(LOADERS)


def loader_of(name: str) -> Loader:
    """The loader of a format.

    Raises:
        InputError: there is no such format; the nearest one is named.
    """
    if name not in LOADERS:
        raise InputError(f"the trace formats are {', '.join(FORMATS)}{did_you_mean(name, FORMATS)}; not {name!r}")
    return LOADERS[name]
