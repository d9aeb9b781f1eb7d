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
        """The open control plane."""
        return open_once(self.home)


def open_once(home: str | None = None) -> System:
    """The control plane of a home folder, opened once per process; for sensors, and behind `LucidResource`.

    Sensors do not ask for the resource: a sensor that does makes Dagster open its whole instance at every tick
    (45 of a tick's 50 CPU-milliseconds on SQLite; docs/decisions/0002).
    """
    settings = load_settings(home)
    key = (os.getpid(), str(settings.home))  # a connection must not cross a fork
    if key not in _open:
        _open[key] = open_system(settings)
    return _open[key]
