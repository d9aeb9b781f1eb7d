"""Take secrets out of source code and settings before they leave this process; of logs see ``redacted``."""

from __future__ import annotations

import re

from lucid_pipelines.redaction import HIDDEN, without_known_secrets

_ASSIGNED = re.compile(
    r"(?i)((?:[\w\-]*(?:api[_\-]?key|secret|token|passw(?:or)?d|credential|private[_\-]?key|access[_\-]?key)[\w\-]*)"
    r"[\"']?\s*[:=]\s*)([\"']?)([^\s\"',;]{6,})"
)
# These words name numbers of training, not secrets.
_HARMLESS = re.compile(
    r"(?i)^(?:num_|max_|n_|min_|total_|new_|pad_|eos_|bos_|unk_|cls_|mask_|special_|add_|use_|train_)?tokens?"
    r"(?:_id|_ids|s|izer\w*|_type\w*|_len\w*|_per\w*|_count)?$|tokeniz|token_(?:dropout|embed|mix|merg)|_tokens$"
)


def redact(text: str) -> str:
    """The text with keys, passwords and tokens replaced by ``[hidden]``; line breaks stay where they are."""
    return _ASSIGNED.sub(_assigned, without_known_secrets(text))


def _assigned(match: re.Match[str]) -> str:
    name = re.split(r"[\"'\s:=]", match.group(1), maxsplit=1)[0]
    value = match.group(3)
    if _HARMLESS.search(name) or re.fullmatch(r"[\d._eE+\-]+", value) or re.match(r"(?:os|self|args|cfg)\b", value):
        return match.group(0)
    return f"{match.group(1)}{match.group(2)}{HIDDEN}"
