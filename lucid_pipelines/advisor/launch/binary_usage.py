"""Options of compiled programs whose source lies in the snapshot: what a one-letter flag means.

The usage text and the argument loop of a C, C++ or CUDA source say which flag sets which quantity.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from lucid_pipelines.advisor.evaluator.values import Lit, Origin
from lucid_pipelines.advisor.launch.launchers import Launch
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

_SOURCES = (".cu", ".c", ".cc", ".cpp", ".cxx")
_USAGE = re.compile(r"""["']\s*(--?[\w\-]+)(?:[ ,]+--?[\w\-]+)?(?:[ =]*<[^>]*>)?\s+([^"\\]{6,200})""")
_MEANINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("total_batch_size", re.compile(r"(total|desired|global|effective)[^.]*batch size", re.IGNORECASE)),
    ("micro_batch_size", re.compile(r"(per[- ]?gpu|micro|per[- ]?device)[^.]*batch size", re.IGNORECASE)),
    ("batch_size", re.compile(r"batch size", re.IGNORECASE)),
    (
        "learning_rate",
        re.compile(r"^\(?(max |peak |initial )?learning rate(?! warmup| decay|.*fraction)", re.IGNORECASE),
    ),
    ("seq_len", re.compile(r"sequence length", re.IGNORECASE)),
    (
        "max_steps",
        re.compile(r"max[_ ]steps|(number of|how many)( training| optimi[sz]ation)? (steps|iterations)", re.IGNORECASE),
    ),
    ("epochs", re.compile(r"(number of|how many|training) epochs", re.IGNORECASE)),
    ("train_data", re.compile(r"(train(ing)?|input)[^.]*(data|files?|corpus)", re.IGNORECASE)),
    ("optimizer", re.compile(r"^optimi[sz]er", re.IGNORECASE)),
)
_NOT_SETTINGS = re.compile(r"(val|eval|test|every|schedul|sampl|generat|checkpoint|log|infer)", re.IGNORECASE)


def binary_settings(tree: SourceTree, launch: Launch) -> list[tuple[str, Lit]]:
    """Settings that the options of a compiled program make, by name; empty when its source is not found."""
    source = _source_of(tree, launch)
    text = tree.read_text(source) if source is not None else None
    if source is None or text is None:
        return []
    meanings = dict(_meanings(text))
    found: list[tuple[str, Lit]] = []
    words = launch.args
    for position, word in enumerate(words):
        flag, mark, attached = str(word.value).partition("=")
        name = meanings.get(flag)
        if name is None:
            continue
        value = Lit(attached, word.origin) if mark else words[position + 1] if position + 1 < len(words) else None
        if value is not None:
            origin = value.origin
            file, line = (origin.file, origin.line) if origin is not None else ("<command>", None)
            number = _number(str(value.value))
            found.append((name, Lit(number, Origin(SourceKind.COMMAND_LINE, file, line, name))))
    return found


def _source_of(tree: SourceTree, launch: Launch) -> str | None:
    name = posixpath.basename(launch.target)
    plain = _letters(name)
    if launch.kind != "binary" or len(plain) < 3:
        return None
    for file in tree.walk(max_depth=5):
        stem, ending = posixpath.splitext(posixpath.basename(file))
        if ending in _SOURCES and plain in (_letters(stem), _letters(stem + ending)):
            return file
    return None


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _meanings(text: str) -> Iterator[tuple[str, str]]:
    """Flags and the setting that their description speaks of."""
    for line in text.split("\n"):
        if len(line) > 400 or '"' not in line:
            continue
        match = _USAGE.search(line)
        if match is None:
            continue
        flag, description = match.group(1), match.group(2)
        for name, pattern in _MEANINGS:
            if pattern.search(description) and not _NOT_SETTINGS.search(description.partition("(default")[0]):
                yield flag, name
                break


def _number(text: str) -> str | int | float:
    if re.fullmatch(r"[-+]?\d{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) else text
