"""Configuration files that a launch line names, read even when the program is not followed."""

from __future__ import annotations

import posixpath
import re

from lucid_pipelines.advisor.configs.gin_text import parse_gin
from lucid_pipelines.advisor.configs.interpolation import Interpolator
from lucid_pipelines.advisor.configs.load import ENDINGS, ConfigTextError, load_config
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Value
from lucid_pipelines.advisor.launch.launchers import Launch
from lucid_pipelines.advisor.source_tree import SourceTree

MAX_FILES = 12
_NAME = re.compile(r"^[\w][\w./\-]{1,200}$")


def named_configs(tree: SourceTree, launch: Launch, cwd: str) -> list[tuple[str, Value]]:
    """Configuration files named by words of the launch line, later ones over earlier ones.

    A name may lack its ending, or lie in a folder that another option names (``-d configs 125M.yml``),
    or be found by name alone inside the package (``--config llama3_1/8B_lora``).
    """
    words = [*launch.args, *(extra for extra in (launch.config_file, launch.deepspeed_config) if extra is not None)]
    values = [str(word.value).partition("=")[2] or str(word.value) for word in words]
    folders = [
        cwd,
        *(path for value in values if (path := tree.relative(value, cwd)) is not None and tree.is_dir(path) and path),
    ]
    found: list[tuple[str, Value]] = []
    seen: set[str] = set()
    for value in values:
        if len(found) >= MAX_FILES or not _NAME.match(value.lstrip("./")) or value.startswith("-"):
            continue
        file = _resolve(tree, value, folders)
        if file is None or file in seen:
            continue
        seen.add(file)
        content = read_config(tree, file)
        if content is not None:
            found.append((file, content))
    return found


def read_config(tree: SourceTree, file: str) -> Value | None:
    """A configuration file with its interpolations resolved; ``None`` when it cannot be understood."""
    if file.endswith(".gin"):
        return parse_gin(tree, file)
    try:
        content = load_config(tree, file)
    except ConfigTextError:
        return None
    return Interpolator(content).resolved(content) if isinstance(content, Map) else content


def _resolve(tree: SourceTree, value: str, folders: list[str]) -> str | None:
    endings = ("",) if value.endswith((*ENDINGS, ".gin")) else (".yaml", ".yml", ".json", ".toml")
    if not value.endswith((*ENDINGS, ".gin")) and (
        "." in posixpath.basename(value) and not re.search(r"\d\.\d", value)
    ):
        return None
    for folder in folders:
        for ending in endings:
            path = tree.relative(value + ending, folder)
            if path is not None and tree.is_file(path):
                return path
    if "/" not in value and endings != ("",):
        return None
    wanted = [value.lstrip("./") + ending for ending in endings]
    matches = [file for file in tree.walk() if any(file.endswith("/" + name) for name in wanted)]
    return matches[0] if len(matches) == 1 else None


def config_words(launch: Launch) -> list[Lit]:
    """Words of a launch that name configuration files."""
    return [word for word in launch.args if str(word.value).endswith((*ENDINGS, ".gin"))]
