"""Hide secrets in texts that leave the machine: notices, report pages, questions to a language model (R-43)."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "[hidden]"
_KEY_END = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_KEY_BLOCK = re.compile(rf"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:(?P<end>{_KEY_END.pattern})|\Z)", re.DOTALL)
_KNOWN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{8,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,})"
)
"""Tokens that are known by how they begin."""
_USER_IN_URL = re.compile(r"(?<=://)[^\s/@:]{1,256}:[^\s/@]{1,256}(?=@)")
_HOOK_PATH = re.compile(r"(?i)(hooks\.slack\.com/(?:services|workflows)/|/api/webhooks/|/hooks/)[\w/-]{8,}")
_IN_QUERY = re.compile(
    r"(?i)([?&](?:token|key|api_?key|sig|signature|access_token|x-amz-(?:signature|credential|security-token)"
    r"|password|secret)=)[^&\s'\"]+"
)
_NAMED = re.compile(
    r"(?i)((?<![a-z])(?:[\w.-]{0,40}[_.-])?"
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access)?[_-]?key)?|private[_-]?key|auth[_-]?token|token"
    r"|passw(?:or)?d|passphrase|pwd|credentials?|authorization|cookie)(?![a-z])"
    r"['\"]?(?:\s*[:=]\s*|(?<=[a-z])\s+(?=['\"]?[^\s]*\d)))"
    r"(?P<open>['\"]?)(?:(?:bearer|basic|token)\s+)?(?P<value>[^\s'\",;&)}\]]{4,}|(?<=['\"])[^'\"\n]{4,}(?=['\"]))"
)
"""A value given to a name of a secret; after a space only where it holds a digit: prose speaks of tokens too."""
_COUNT = re.compile(r"(?i)^\d{1,7}(?:\.\d+)?[a-z%]*$")
_NO_SECRET = re.compile(r"(?i)^(?:none|null|true|false|\*+|\[hidden\]|\$\{?\w+\}?|<[\w -]+>|len\b.*)$")


def redacted(text: str) -> str:
    """The text with what looks like keys, tokens and passwords hidden."""
    text = _KEY_BLOCK.sub(HIDDEN, text)
    text = _USER_IN_URL.sub(HIDDEN, text)
    text = _HOOK_PATH.sub(lambda match: match[1] + HIDDEN, text)
    text = _IN_QUERY.sub(lambda match: match[1] + HIDDEN, text)
    text = _KNOWN.sub(HIDDEN, text)
    return _NAMED.sub(_hide_value, text)


def redacted_lines(texts: Iterable[str]) -> list[str]:
    """The lines of one text, each redacted; all lines of a private key are hidden, as in ``redacted``."""
    shown: list[str] = []
    in_key = False
    for text in texts:
        rest = text
        if in_key:
            end = _KEY_END.search(text)
            if end is None:
                shown.append(HIDDEN)
                continue
            rest = HIDDEN + text[end.end() :]
        in_key = any(block["end"] is None for block in _KEY_BLOCK.finditer(rest))
        shown.append(redacted(rest))
    return shown


def _hide_value(match: re.Match[str]) -> str:
    is_count = "token" in match[1].lower() and _COUNT.match(match["value"]) is not None
    if is_count or _NO_SECRET.match(match["value"]):
        return match[0]
    return f"{match[1]}{match['open']}{HIDDEN}"
