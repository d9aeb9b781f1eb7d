"""Which file of the snapshot an import means."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Sequence

from lucid_pipelines.advisor.evaluator.parsing import parse
from lucid_pipelines.advisor.evaluator.values import Mod
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

LIBRARY_PACKAGES = frozenset(
    {
        "torch", "torchvision", "torchaudio", "tensorflow", "jax", "flax", "optax", "numpy", "transformers",
        "datasets", "accelerate", "deepspeed", "timm", "lightning", "pytorch_lightning", "omegaconf", "hydra",
        "yaml", "json", "argparse", "os", "sys", "re", "math", "random", "time", "pathlib", "typing",
        "dataclasses", "collections", "functools", "itertools", "copy", "logging", "keras", "sklearn", "pandas",
        "scipy", "wandb", "tokenizers", "peft", "trl", "evaluate", "gym", "gymnasium", "absl", "click",
    }
)  # fmt: skip
"""Names that mean the library when the snapshot only has a folder of that name without ``__init__.py``."""


MAX_PARSED_BYTES = 8 * 1024 * 1024
"""Source that may be parsed in one reading: its syntax trees take some 30 times as much memory."""


class Modules:
    """Modules of one snapshot, found along search roots as Python would find them.

    Args:
        roots: folders on the import path, the script's folder first.
    """

    def __init__(self, tree: SourceTree, roots: Sequence[str]) -> None:
        self._tree = tree
        self.roots = list(dict.fromkeys(roots))
        self._by_file: dict[str, Mod] = {}
        self._found: dict[str, Mod | None] = {}
        self._syntax: dict[str, ast.Module | None] = {}
        self._parsed_bytes = 0
        self.config_files: set[str] = set()
        """Files that the launch line names as configuration."""

    def absolute(self, name: str, package: str, level: int) -> str:
        """The full dotted name of an import; relative imports count ``level`` steps up."""
        if level == 0:
            return name
        parts = package.split(".") if package else []
        base = parts[: len(parts) - (level - 1)] if level > 1 else parts
        return ".".join([*base, name] if name else base)

    def find(self, name: str) -> Mod | None:
        """The module of that full name, or ``None`` when it is not in the snapshot."""
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def walked(self) -> list[Mod]:
        """Modules whose bodies were run."""
        return [module for module in self._by_file.values() if module.state != "new"]

    def forget_missing(self) -> None:
        """Search again for modules that were not found: a search root was added."""
        self._found = {name: module for name, module in self._found.items() if module is not None}

    def at(self, file: str, name: str, package: str = "") -> Mod:
        """The module of a file that is known by path; each file is one module object."""
        if file not in self._by_file:
            kind = SourceKind.CONFIG if file in self.config_files else SourceKind.CODE
            self._by_file[file] = Mod(name, file, package, kind)
        return self._by_file[file]

    def syntax(self, file: str) -> ast.Module | None:
        """The syntax tree of a file, ``None`` when it cannot be read or parsed."""
        if file not in self._syntax:
            text = self._tree.read_text(file)
            if text is not None and self._parsed_bytes + len(text) > MAX_PARSED_BYTES:
                self._tree.skipped["budget for parsing spent"] += 1
                text = None
            if text is not None:
                self._parsed_bytes += len(text)
            self._syntax[file] = None if text is None else parse(text)
        return self._syntax[file]

    def defines(self, file: str, name: str) -> bool:
        """Whether a file seems to define a name at its top level; a look at the text, nothing is parsed."""
        text = self._tree.read_text(file) if name.isidentifier() else None
        if text is None:
            return False
        return (
            re.search(
                rf"^(?:(?:async )?def|class) {name}\b|^{name}\s*[:=]|import [^\n]{{0,200}}\b{name}\b",
                text,
                re.MULTILINE,
            )
            is not None
        )

    def _search(self, name: str) -> Mod | None:
        if not name or len(name) > 200 or not all(part.isidentifier() for part in name.split(".")):
            return None
        path = name.replace(".", "/")
        top = name.partition(".")[0]
        for root in self.roots:
            base = posixpath.join(root, path) if root else path
            for file, is_package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
                if self._tree.is_file(file):
                    return self.at(file, name, name if is_package else name.rpartition(".")[0])
        if top in LIBRARY_PACKAGES:
            return None
        for root in self.roots:
            base = posixpath.join(root, path) if root else path
            if self._tree.is_dir(base):
                return self._namespace(base, name)
        return None

    def _namespace(self, folder: str, name: str) -> Mod | None:
        """A folder of modules without ``__init__.py``."""
        folders, files = self._tree.children(folder)
        if not any(file.endswith(".py") for file in files) and not folders:
            return None
        module = self.at(f"{folder}/", name, name)
        module.state = "done"
        return module
