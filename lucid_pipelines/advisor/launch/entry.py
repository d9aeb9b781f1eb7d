"""The file of the snapshot that a launch starts."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from lucid_pipelines.advisor.configs.flat_text import toml_data
from lucid_pipelines.advisor.launch.launchers import Launch
from lucid_pipelines.advisor.source_tree import SKIPPED_FOLDERS, SourceTree

MAX_CANDIDATES = 400
_CODE_ENDINGS = (".py", ".ipynb", ".sh", ".bash")


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a program begins.

    Attributes:
        file: path from the root.
        cwd: working directory that makes the launch line's paths right.
        function: what to call after the module ran, for installed commands.
        certain: whether the launch line alone decides it.
    """

    file: str
    cwd: str
    function: str | None = None
    module: str | None = None
    certain: bool = True


def find_entry(tree: SourceTree, launch: Launch, hint: str | None = None) -> Entry | None:
    """The entry of a launch, or ``None`` when it is not in the snapshot.

    Args:
        hint: path of the file that is known to be the entry, for a launch line that is ambiguous.
    """
    if launch.kind in ("file", "binary", "notebook"):
        return _by_path(tree, launch, launch.target, hint)
    if launch.kind == "module":
        return _by_module(tree, launch, hint)
    if launch.kind == "console":
        return _by_command(tree, launch) or _by_path(tree, launch, launch.target, hint)
    return None


def find_script(
    tree: SourceTree, path: str, words: list[str], cwd: str, hint: str | None, near_folder: str | None = None
) -> Entry | None:
    """A script by the path on the launch line: as it is, else the file below it that fits best.

    Args:
        near_folder: folder of the shell script that starts it; its ancestors are tried first.
    """
    direct = tree.relative(path, cwd)
    if direct is not None and tree.is_file(direct):
        return Entry(direct, cwd)
    if path.startswith("/") or "$" in path or "<" in path:
        path = posixpath.basename(path.rstrip("/"))
    suffix = _suffix(path)
    if not suffix:
        return None
    if hint is not None and tree.is_file(hint) and (hint == suffix or hint.endswith("/" + suffix)):
        return Entry(hint, _base(hint, suffix), certain=False)
    candidates = [
        file
        for file in tree.walk()
        if (file == suffix or file.endswith("/" + suffix)) and not set(file.split("/")) & SKIPPED_FOLDERS
    ][:MAX_CANDIDATES]
    if not candidates:
        return None
    if len(candidates) == 1:
        return Entry(candidates[0], _base(candidates[0], suffix), certain=False)
    near = _nearest(candidates, suffix, near_folder)
    if near is not None:
        return Entry(near, _base(near, suffix), certain=False)
    scored = sorted(((_fit(tree, file, suffix, words), -file.count("/"), file) for file in candidates), reverse=True)
    best = scored[0]
    if best[0] == scored[1][0] and (best[0] <= 0 or best[1] == scored[1][1]):
        # Nothing on the launch line tells them apart: naming one of them would be a guess.
        return None
    return Entry(best[2], _base(best[2], suffix), certain=False)


def _nearest(candidates: list[str], suffix: str, folder: str | None) -> str | None:
    """The candidate that is reached from the nearest ancestor of a folder."""
    current = folder
    while current:
        wanted = f"{current}/{suffix}"
        if wanted in candidates:
            return wanted
        current = posixpath.dirname(current)
    return None


def _suffix(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)


def _base(file: str, suffix: str) -> str:
    return file[: len(file) - len(suffix)].rstrip("/")


def _fit(tree: SourceTree, file: str, suffix: str, words: list[str]) -> int:
    """How well a candidate fits the words: options that it declares or mentions, files that exist beside it."""
    base = _base(file, suffix)
    score = 0
    text = tree.read_text(file) if file.endswith(_CODE_ENDINGS) else None
    for word in words:
        name = re.match(r"^--?([A-Za-z][\w\-]*)", word)
        if name is not None and text is not None:
            plain = name.group(1)
            if re.search(rf"""["']--?{plain}["']""", text):
                score += 3
            elif f"-{plain}" in text or plain.replace("-", "_") in text:
                score += 2
        value = word.partition("=")[2] if name is not None else word
        if re.search(r"\.(ya?ml|json|toml|py|gin|cfg|ini)$", value):
            path = tree.relative(value, base)
            score += 6 if path is not None and tree.is_file(path) else 0
    return score


def _by_path(tree: SourceTree, launch: Launch, path: str, hint: str | None) -> Entry | None:
    words = [str(word.value) for word in launch.args]
    word = launch.target_word
    script = word.origin.file if word is not None and word.origin is not None else ""
    near = posixpath.dirname(script) if script and not script.startswith("<") else None
    found = find_script(tree, path, words, launch.cwd, hint, near)
    if found is None and launch.kind == "file" and not path.endswith(".py"):
        # ``python folder`` runs its __main__.py.
        inner = tree.relative(posixpath.join(path, "__main__.py"), launch.cwd)
        if inner is not None and tree.is_file(inner):
            return Entry(inner, launch.cwd)
    return found


def _by_module(tree: SourceTree, launch: Launch, hint: str | None) -> Entry | None:
    path = launch.target.replace(".", "/")
    roots = [launch.cwd, "", "src"]
    for root in roots:
        for name in (f"{path}.py", f"{path}/__main__.py"):
            file = tree.relative(name, root)
            if file is not None and tree.is_file(file):
                return Entry(file, launch.cwd, module=launch.target)
    words = [str(word.value) for word in launch.args]
    found = find_script(tree, f"{path}.py", words, launch.cwd, hint) or find_script(
        tree, f"{path}/__main__.py", words, launch.cwd, hint
    )
    return None if found is None else Entry(found.file, found.cwd, module=launch.target, certain=False)


_SETUP_ENTRY = re.compile(r"""["']\s*([\w.\-]+)\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*["']""")
_INI_ENTRY = re.compile(r"^[ \t]*([\w.\-]+)[ \t]*=[ \t]*([\w.]+)[ \t]*:[ \t]*([\w.]+)[ \t]*$", re.MULTILINE)


def _by_command(tree: SourceTree, launch: Launch) -> Entry | None:
    """An installed command: its module and function, as the package's metadata declares them."""
    declared = console_commands(tree).get(launch.target)
    if declared is None:
        return None
    module, function = declared
    path = module.replace(".", "/")
    for root in ("", "src", "lib", "python"):
        for name in (f"{path}.py", f"{path}/__init__.py"):
            file = tree.relative(name, root)
            if file is not None and tree.is_file(file):
                return Entry(file, launch.cwd, function, module)
    return None


def console_commands(tree: SourceTree) -> dict[str, tuple[str, str]]:
    """Installed commands of the snapshot's package: name to module and function."""
    found: dict[str, tuple[str, str]] = {}
    text = tree.read_text("setup.py") if tree.is_file("setup.py") else None
    if text is not None:
        found.update({name: (module, function) for name, module, function in _SETUP_ENTRY.findall(text[:200_000])})
    text = tree.read_text("setup.cfg") if tree.is_file("setup.cfg") else None
    if text is not None:
        found.update({name: (module, function) for name, module, function in _INI_ENTRY.findall(text[:200_000])})
    text = tree.read_text("pyproject.toml") if tree.is_file("pyproject.toml") else None
    if text is not None:
        found.update(_project_scripts(text))
    return found


def _project_scripts(text: str) -> dict[str, tuple[str, str]]:
    try:
        data = toml_data(text)
    except (ValueError, RecursionError):
        return {}
    project = data.get("project")
    poetry = data.get("tool", {}).get("poetry", {}) if isinstance(data.get("tool"), dict) else {}
    found: dict[str, tuple[str, str]] = {}
    for owner in (project, poetry):
        scripts = owner.get("scripts") if isinstance(owner, dict) else None
        for name, target in scripts.items() if isinstance(scripts, dict) else []:
            module, mark, function = str(target).partition(":")
            if mark:
                found[str(name)] = (module.strip(), function.strip())
    return found
