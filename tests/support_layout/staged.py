"""Lay the packages out as an installed wheel does, by links, for tools that do not follow ``package-dir``.

``python tests/support_layout/staged.py TARGET``
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP_LEVEL_PACKAGES = ("assets", "sensors", "resources")


def stage(target: Path) -> Path:
    """Create ``target/lucid_pipelines`` with every room below it, and the tool settings beside it."""
    package = target / "lucid_pipelines"
    if package.exists():
        shutil.rmtree(package)
    package.mkdir(parents=True)
    for child in (ROOT / "lucid_pipelines").iterdir():
        if child.name != "__pycache__":
            (package / child.name).symlink_to(child)
    for name in TOP_LEVEL_PACKAGES:
        (package / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pyproject.toml", target / "pyproject.toml")
    return target


if __name__ == "__main__":
    print(stage(Path(sys.argv[1])))
