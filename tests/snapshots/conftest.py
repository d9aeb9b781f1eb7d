"""Durability is tested where it is the subject; elsewhere flushing would only wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

_ABOUT_DURABILITY = {"test_faults", "test_kills_and_company"}


@pytest.fixture(autouse=True, scope="module")
def no_flushing(request: pytest.FixtureRequest) -> Iterator[None]:
    """``fsync`` and ``syncfs`` do nothing, unless the module is about them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.rpartition(".")[2] not in _ABOUT_DURABILITY:
            for name in ("store.sync_paths", "materialising.sync_paths"):
                patch.setattr(f"lucid_pipelines.snapshots.{name}", lambda *_: None)
            patch.setattr("lucid_pipelines.snapshots.store.os.fsync", lambda _: None)
        yield
