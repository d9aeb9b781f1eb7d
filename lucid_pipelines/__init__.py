"""Lucid Pipelines: a control plane that schedules a shared GPU training cluster and explains itself."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lucid_pipelines.client import Client as Client

try:
    __version__ = version("lucid-pipelines")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"

__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the client on first use, so that importing one room does not pull in the store."""
    if name == "Client":
        return import_module("lucid_pipelines.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
