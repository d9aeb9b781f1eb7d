"""The Dagster resource that hands the control plane's world to ops, assets and sensors."""

from __future__ import annotations

import os

from dagster import ConfigurableResource
from pydantic import Field

from lucid_pipelines.control.system import System
from lucid_pipelines.resources.system import open_system
from lucid_pipelines.settings import load_settings

_open: dict[tuple[int, str], System] = {}


class LucidResource(ConfigurableResource):
    """Opens the control plane of one home folder, once per process."""

    home: str | None = Field(default=None, description="Home folder; default: LUCID_HOME, then ./.lucid.")

    @property
    def system(self) -> System:
        """The open control plane. Keyed by process too: a connection must not cross a fork."""
        settings = load_settings(self.home)
        key = (os.getpid(), str(settings.home))
        if key not in _open:
            _open[key] = open_system(settings)
        return _open[key]
