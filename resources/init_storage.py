"""Create Dagster's own tables, alone, before any service opens them.

A fresh SQLite home that three processes open at once breaks for ever in most tries ("more than one head").
"""

from __future__ import annotations

from dagster import DagsterInstance


def init_storage() -> None:
    """Bring every storage of the instance up to date and close it again."""
    with DagsterInstance.get() as instance:
        instance.upgrade()
        instance.get_runs(limit=1)
        instance.all_instigator_state()
        instance.get_asset_keys()


if __name__ == "__main__":
    init_storage()
