"""Hide secrets in texts that leave the machine: notices, report pages, questions to a language model (R-43)."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "[hidden]"
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_KNOWN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|[pr]k-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|gh[pousr]_[A-Za-z0-9]{16,}"
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
    """A text of a program or a log with what looks like keys, tokens and passwords hidden."""
    return _NAMED.sub(_hide_value, without_known_secrets(text))


def without_known_secrets(text: str) -> str:
    """The text without secrets that are told by their own form, whatever they are called; line breaks stay."""
    text = _without_key_blocks(text)
    text = _USER_IN_URL.sub(HIDDEN, text)
    text = _HOOK_PATH.sub(lambda match: match[1] + HIDDEN, text)
    text = _IN_QUERY.sub(lambda match: match[1] + HIDDEN, text)
    return _KNOWN.sub(HIDDEN, text)


def redacted_lines(texts: Sequence[str]) -> list[str]:
    """The lines of one text, each redacted; of a private key every line is hidden."""
    joined = "\n".join(text.replace("\n", " ") for text in texts)
    return [redacted(text) for text in _without_key_blocks(joined).split("\n")][: len(texts)]


def _without_key_blocks(text: str) -> str:
    return _KEY_BLOCK.sub(lambda match: "\n".join([HIDDEN] * (match[0].count("\n") + 1)), text)


def _hide_value(match: re.Match[str]) -> str:
    is_count = "token" in match[1].lower() and _COUNT.match(match["value"]) is not None
    if is_count or _NO_SECRET.match(match["value"]):
        return match[0]
    return f"{match[1]}{match['open']}{HIDDEN}"
