"""Lay the packages out as an installed wheel does, for tools that do not follow ``package-dir``.

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
    _link_files(ROOT / "lucid_pipelines", package)
    for name in TOP_LEVEL_PACKAGES:
        _link_files(ROOT / name, package / name)
    shutil.copy(ROOT / "pyproject.toml", target / "pyproject.toml")
    return target


def _link_files(source: Path, target: Path) -> None:
    """Folders are made and files linked: a type checker that looks for sources does not follow links to folders."""
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            link = target / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


if __name__ == "__main__":
    print(stage(Path(sys.argv[1])))
