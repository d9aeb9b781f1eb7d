"""Forms of lines: a cheap key under which all lines that differ only in their numbers fall together.

Deleting digits, signs, blanks and bar glyphs from the bytes of a line takes well under a microsecond, so that a log
of hundreds of thousands of lines a second can be sorted into its few forms; only one line of a form needs a look.
"""

from __future__ import annotations

import re

from lucid_pipelines.tracker.vocabulary import FOREIGN

_BAR_BYTES = bytes([0xE2, 0x94, 0x95, 0x96, 0x80, 0x81, *range(0x88, 0x90), 0xB8, 0xBA])
_DELETED = b"0123456789 \t\r.,+-#=>" + _BAR_BYTES
MAX_FORM_BYTES = 512
"""Of a longer line the start decides."""


def form_of(line: bytes) -> bytes:
    """The key of a line: equal for lines that differ in numbers, signs, padding and the length of a bar."""
    form = line[: 2 * MAX_FORM_BYTES].translate(None, _DELETED)[:MAX_FORM_BYTES]
    return form if len(form) > 3 or _DIGIT.search(line) else form + b" "


def may_report(form: bytes, line: bytes) -> bool:
    """Whether a line of this form could report progress: cheap, generous, asked once per form."""
    if not has_numbers(line):
        return False
    return (
        bool(_HINT.search(form))
        or bool(_FOREIGN_HINT.search(line))
        or len(_LETTERS.sub(b"", form)) == len(form)
        or len(form) <= 12
    )


def has_numbers(line: bytes) -> bool:
    """Whether a line has any digit."""
    return _DIGIT.search(line) is not None


_DIGIT = re.compile(rb"\d")
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]")
_HINT = re.compile(
    rb"loss|step|iter|epoch|batch|/s|/it|/ba|it/|%|updat|train|lr|learning|ppl|perpl|acc|cost|nll|xent|entropy|rmse|mse"
    rb"|auc|grad|reward|round|episode|objective|elapsed|eta|remain|sec|time|ms|speed|throughput|fps|ips|tps|Up|\[\]|#"
    rb"|\xe6\x8d\x9f\xe5\xa4\xb1|\xe6\xad\xa5|\xe8\xbd\xae|\xe8\x80\x97\xe6\x97\xb6|\xe8\xbf\xad\xe4\xbb\xa3",
    re.IGNORECASE,
)
_FOREIGN_HINT = re.compile(
    b"|".join(
        re.escape(shown.encode())
        for word in sorted(FOREIGN)
        if len(word) > 3 or not word.isascii()
        for shown in {word, word.capitalize()}
        if len(shown.encode()) > 3
    )
)
"""Looked for in the line itself: what is deleted from a form tears letters of other scripts apart."""
