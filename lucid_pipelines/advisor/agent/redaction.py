"""Take secrets out of text before it leaves this process."""

from __future__ import annotations

import re

REDACTED = "[redacted]"
_ASSIGNED = re.compile(
    r"(?i)((?:[\w\-]*(?:api[_\-]?key|secret|token|passw(?:or)?d|credential|private[_\-]?key|access[_\-]?key)[\w\-]*)"
    r"[\"']?\s*[:=]\s*)([\"']?)([^\s\"',;]{6,})"
)
_KNOWN = re.compile(
    r"(?:sk|pk|rk)-[A-Za-z0-9_\-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w\-]{16,}"
    r"|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9\-]{10,}|AIza[\w\-]{30,}|eyJ[\w\-]{10,}\.[\w\-]{10,}\.[\w\-]{5,}"
)
_IN_URL = re.compile(r"(?<=://)[^/\s:@]{1,80}:[^/\s@]{1,120}(?=@)")
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
# These words name numbers of training, not secrets.
_HARMLESS = re.compile(
    r"(?i)^(?:num_|max_|n_|min_|total_|new_|pad_|eos_|bos_|unk_|cls_|mask_|special_|add_|use_|train_)?tokens?"
    r"(?:_id|_ids|s|izer\w*|_type\w*|_len\w*|_per\w*|_count)?$|tokeniz|token_(?:dropout|embed|mix|merg)|_tokens$"
)


def redact(text: str) -> str:
    """The text with keys, passwords and tokens replaced by ``[redacted]``; line breaks stay where they are."""
    text = _KEY_BLOCK.sub(lambda match: "\n".join([REDACTED] * (match.group(0).count("\n") + 1)), text)
    text = _KNOWN.sub(REDACTED, text)
    text = _IN_URL.sub(REDACTED, text)
    return _ASSIGNED.sub(_assigned, text)


def _assigned(match: re.Match[str]) -> str:
    name = re.split(r"[\"'\s:=]", match.group(1), maxsplit=1)[0]
    value = match.group(3)
    if _HARMLESS.search(name) or re.fullmatch(r"[\d._eE+\-]+", value) or re.match(r"(?:os|self|args|cfg)\b", value):
        return match.group(0)
    return f"{match.group(1)}{match.group(2)}{REDACTED}"
