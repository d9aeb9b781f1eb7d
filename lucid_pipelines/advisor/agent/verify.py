"""Does a claimed value really stand where the model says, as code says it?

A number that prose names proves nothing: only an assignment outside comments and docstrings, to a name that
means the field, in a file that the model was shown. So a README cannot change a number.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping

from lucid_pipelines.advisor.agent.actions import NUMBERS, Claim
from lucid_pipelines.advisor.agent.tools import Tools
from lucid_pipelines.advisor.fields import names as known
from lucid_pipelines.advisor.fields.vocabulary import DATASETS, FAMILIES, is_placeholder
from lucid_pipelines.advisor.metadata import FieldName, IterationType
from lucid_pipelines.advisor.source_tree import SourceTree

SPEAKING: Mapping[FieldName, tuple[str, ...]] = {
    FieldName.ITERATIONS: (
        *known.EPOCHS, *known.STEPS, *known.TOKENS, *known.SAMPLES, *known.KIMG,
        *known.ENVIRONMENT_STEPS,
    ),
    FieldName.BATCH_SIZE: (*known.GLOBAL_BATCH, *known.PLAIN_BATCH),
    FieldName.BATCH_SIZE_PER_DEVICE: (*known.DEVICE_BATCH, *known.PLAIN_BATCH),
    FieldName.GRAD_ACCUMULATION: known.ACCUMULATION,
    FieldName.LEARNING_RATE: known.LEARNING_RATE,
    FieldName.SEQ_LEN: known.SEQUENCE_LENGTH,
    FieldName.D_MODEL: known.MODEL_WIDTH,
    FieldName.LAYERS: known.MODEL_LAYERS,
    FieldName.WORKERS: known.WORKERS,
    FieldName.GPUS_PER_NODE: known.GPU_COUNTS,
    FieldName.NODES: known.NODE_COUNTS,
    FieldName.MODEL: known.MODEL,
    FieldName.DATASET: known.DATASET,
    FieldName.OPTIMIZER: known.OPTIMIZER,
}  # fmt: skip
"""Names that mean a field: the line of a claim must hold one."""

_COUNTED = (
    (IterationType.EPOCHS, known.EPOCHS),
    (IterationType.STEPS, known.STEPS),
    (IterationType.TOKENS, known.TOKENS),
    (IterationType.SAMPLES, known.SAMPLES),
    (IterationType.KIMG, known.KIMG),
    (IterationType.ENV_STEPS, known.ENVIRONMENT_STEPS),
)
CODE_ENDINGS = (".py", ".sh", ".bash", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".gin", ".conf", ".slurm")
_HASH_COMMENTS = (".sh", ".bash", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".gin", ".conf", ".slurm")
_NUMBER = re.compile(r"(?<![\w.])(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_OFF = re.compile(r"(?i)\b(?:false|no|off|none|not)\b")
TASKS = frozenset(kind.task for kind in (*FAMILIES, *DATASETS) if kind.task is not None)


def verified(claim: Claim, tools: Tools) -> str | None:
    """``None`` when the claim holds, else why it does not."""
    file = tools.tree.relative(claim.file)
    if file is None or claim.line not in tools.shown.get(file, ()):
        return "it was not read there"
    if claim.field_name is FieldName.TASK_TYPE:
        return None if claim.value in TASKS else "that is no known task"
    if not file.endswith(CODE_ENDINGS):
        return "the file is no code and no configuration"
    code = code_line(tools.tree, file, claim.line)
    if claim.field_name is FieldName.PRECISION:
        return None if _says_precision(code, str(claim.value)) else "that precision is not switched on there"
    if not _names_field(code, claim.field_name):
        return "no name on that line means this field"
    if claim.field_name in NUMBERS:
        return None if _has_number(code, float(claim.value)) else "that number does not stand there"
    text = str(claim.value)
    if is_placeholder(text):
        return "that is a placeholder"
    return None if _quoted(code, text) else "that text does not stand there"


def code_line(tree: SourceTree, file: str, line: int) -> str:
    """One line of a file without its comments and docstrings; empty when nothing else is on it."""
    text = tree.read_text(file) or ""
    if file.endswith(".py"):
        return _python_line(text, line)
    lines = text.split("\n")
    found = lines[line - 1] if line <= len(lines) else ""
    if file.endswith(_HASH_COMMENTS):
        found = re.sub(r"(^|\s)#.*$", "", found) if not found.startswith("#SBATCH") else found
    return found if not found.lstrip().startswith(("//", ";")) else ""


def _python_line(text: str, line: int) -> str:
    """Tokens of one line. A text that stands alone is a docstring, whatever it says."""
    kept: list[str] = []
    alone = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                alone = True
                continue
            if token.type == tokenize.COMMENT:
                continue
            is_docstring = token.type == tokenize.STRING and alone
            alone = False
            if token.start[0] <= line <= token.end[0] and not is_docstring:
                # A text over several lines says nothing about one of them.
                kept.append(token.string if token.start[0] == token.end[0] else "")
            if token.start[0] > line:
                break
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return ""
    return " ".join(kept)


def _names_field(code: str, name: FieldName) -> bool:
    words = {word.lower().replace("-", "_").lstrip("_") for word in re.findall(r"[A-Za-z_][\w\-]*", code)}
    return bool(words & set(SPEAKING[name]))


def _has_number(code: str, value: float) -> bool:
    return any(float(found.replace("_", "")) == value for found in _NUMBER.findall(code))


def _quoted(code: str, text: str) -> bool:
    return re.search(rf"(?<![\w\-/.]){re.escape(text)}(?![\w\-])", code) is not None


def _says_precision(code: str, precision: str) -> bool:
    return re.search(rf"(?<![a-z]){precision}(?![a-z0-9])", code.lower()) is not None and _OFF.search(code) is None


def iteration_type(code: str) -> IterationType | None:
    """What a line's name counts, where it says so: ``max_steps`` counts steps."""
    words = {word.lower().replace("-", "_").lstrip("_") for word in re.findall(r"[A-Za-z_][\w\-]*", code)}
    return next((kind for kind, speaking in _COUNTED if words & set(speaking)), None)
