"""The packing model in service: the promoted one, else the shipped one, with the tuned thresholds in force."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from lucid_pipelines.control import tuned
from lucid_pipelines.control.estimating import models_root
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.models.artefacts.registry import Registry
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.packing import PackingModel, Thresholds, default_packing_model

if TYPE_CHECKING:
    from lucid_pipelines.control.system import System

_log = logging.getLogger(__name__)


def packing_in_service(system: System) -> PackingModel:
    """The model that scores jobs. One that cannot be used is counted, and the shipped one takes its place."""
    model = _promoted(system) or default_packing_model()
    values = tuned.applied(system.store).values
    if "tiny_above" not in values and "medium_above" not in values:
        return model
    tiny = float(values.get("tiny_above", model.thresholds.tiny_above))
    medium = min(float(values.get("medium_above", model.thresholds.medium_above)), tiny)
    return replace(model, thresholds=Thresholds(tiny, medium))


def _promoted(system: System) -> PackingModel | None:
    registry = Registry(models_root(system.settings))
    try:
        if registry.in_service(ModelKind.PACKING) is None:
            return None
        return PackingModel.from_document(registry.read(ModelKind.PACKING))
    except LucidError as error:
        _log.warning("the packing model in service is not used: %s", error)
        system.store.counters.add("packing_model_refused", now=system.clock.now())
        return None
