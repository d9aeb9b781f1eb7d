"""Secrets inside small text files: only shapes that hardly anything else has, and only values that look real.

Each rule has a fixed piece of text that must be present, which makes the search cheap, and a regular expression
whose first group is the secret value. A value that spells ``example``, repeats itself or counts upwards is taken
for the placeholder that it is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

RULES_VERSION = 1
"""Raise it when a rule changes: verdicts that are remembered from before are then worth nothing."""

_SNIFF_BYTES = 8192
_FAKE_WORDS = re.compile(
    rb"example|dummy|fake|placehold|sample|redacted|changeme|change[-_]me|your|insert|xxxx|00000|11111|\*\*\*\*"
    rb"|123456|abcdef|fedcba|654321|qwerty|deadbeef|aaaaa|lorem|secretkey|not[-_]?real|notasecret",
    re.IGNORECASE,
)
_FAKE_KEY_WORDS = re.compile(rb"example|placeholder|redacted|changeme|notreal|fakefake|xxxxxx", re.IGNORECASE)
"""Longer words for long values, which hold the short ones by chance."""
_REAL_ENTROPY_FRAC = 0.72
"""Share of the entropy that a random value of this length and alphabet could have."""


@dataclass(frozen=True, slots=True)
class ContentFinding:
    """What was recognised and where; ``line`` is 1-based."""

    rule: str
    line: int


@dataclass(frozen=True, slots=True)
class _Token:
    label: str
    needle: bytes
    regex: re.Pattern[bytes]
    alphabet: int


def _token(label: str, needle: bytes, regex: bytes, alphabet: int = 62) -> _Token:
    return _Token(label, needle, re.compile(regex), alphabet)


_END = rb"(?![A-Za-z0-9_-])"
_START = rb"(?<![A-Za-z0-9])"
_TOKENS: tuple[_Token, ...] = (
    _token("AWS access key", b"AKIA", _START + rb"AKIA([A-Z2-7]{16})(?![A-Za-z0-9])", 32),
    _token("AWS session key", b"ASIA", _START + rb"ASIA([A-Z2-7]{16})(?![A-Za-z0-9])", 32),
    _token(
        "AWS secret key",
        b"ecret",
        rb"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    *(
        _token("GitHub token", prefix, _START + prefix + rb"([A-Za-z0-9]{36})" + _END)
        for prefix in (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_")
    ),
    _token("GitHub token", b"github_pat_", _START + rb"github_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59})" + _END),
    _token("GitLab token", b"glpat-", _START + rb"glpat-([A-Za-z0-9_-]{20,})"),
    _token("Slack token", b"xox", _START + rb"xox[abeprs]-(\d{6,}-[A-Za-z0-9-]{20,})"),
    _token("Slack webhook", b"hooks.slack.com", rb"hooks\.slack\.com/services/(T\w{6,}/B\w{6,}/\w{20,})"),
    _token("Google API key", b"AIza", _START + rb"AIza([A-Za-z0-9_-]{35})" + _END),
    _token("Google client secret", b"GOCSPX-", rb"GOCSPX-([A-Za-z0-9_-]{28})" + _END),
    _token("OpenAI key", b"T3BlbkFJ", _START + rb"sk-([A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,})"),
    _token("OpenAI key", b"sk-proj-", _START + rb"sk-proj-([A-Za-z0-9_-]{40,})"),
    _token("Anthropic key", b"sk-ant-", _START + rb"sk-ant-[a-z]+\d\d-([A-Za-z0-9_-]{60,})"),
    _token("Hugging Face token", b"hf_", _START + rb"hf_([A-Za-z0-9]{34,40})" + _END),
    _token("Weights & Biases key", b"WANDB_API_KEY", rb"WANDB_API_KEY[\"'\]]*\s*[:=]\s*[\"']?([0-9a-f]{40})", 16),
    _token("Weights & Biases key", b"wandb.login", rb"wandb\.login\([^)]*?key\s*=\s*[\"']([0-9a-f]{40})", 16),
    _token("npm token", b"npm_", _START + rb"npm_([A-Za-z0-9]{36})" + _END),
    _token("npm token", b"_authToken", rb"_authToken\s*=\s*[\"']?([A-Za-z0-9_./+=-]{24,})"),
    _token("PyPI token", b"pypi-AgE", rb"pypi-AgE([A-Za-z0-9_-]{50,})"),
    _token("Stripe key", b"_live_", _START + rb"[sr]k_live_([A-Za-z0-9]{20,})"),
    _token("SendGrid key", b"SG.", _START + rb"SG\.([A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})" + _END),
    _token("Azure storage key", b"AccountKey=", rb"AccountKey=([A-Za-z0-9+/]{86})=="),
    _token("DigitalOcean token", b"dop_v1_", rb"dop_v1_([0-9a-f]{64})", 16),
    _token("Databricks token", b"dapi", _START + rb"dapi([0-9a-f]{32})" + _END, 16),
    _token("Docker token", b"dckr_pat_", rb"dckr_pat_([A-Za-z0-9_-]{27})" + _END),
    _token("Replicate token", b"r8_", _START + rb"r8_([A-Za-z0-9]{37})" + _END),
    _token("Vault token", b"hvs.", _START + rb"hvs\.([A-Za-z0-9_-]{90,})"),
    _token("Telegram token", b":AA", rb"(?<!\d)\d{8,10}:(AA[A-Za-z0-9_-]{33})" + _END),
    _token("age key", b"AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1([A-Z0-9]{58})", 32),
)

_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_PUTTY_KEY = re.compile(rb"PuTTY-User-Key-File-\d: (?s:.*?)Private-Lines: \d+\r?\n[A-Za-z0-9+/=]{20}")
_KEY_HEADER_LINE = re.compile(rb"(?m)^[\s\"'#>|]*[A-Za-z0-9-]+: .*$")
_KEY_NOISE = re.compile(rb"\\[nr]|[\s\"'+,()|>#]")
_KEY_BODY_BYTES = 4096
_KEY_BODY_MIN = 60
_PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
_PUBLIC_BLOCK = re.compile(
    rb"(?:RSA |DSA |EC |SSH2 |PGP )?PUBLIC KEY(?: BLOCK)?|(?:X509 |TRUSTED )?CERTIFICATE(?: REQUEST)?|X509 CRL"
    rb"|NEW CERTIFICATE REQUEST|PKCS7|CMS|(?:DH |EC |DSA |X9\.42 DH )PARAMETERS|PGP SIGNATURE|PGP MESSAGE"
)
_ENV_FILE = re.compile(r".+\.env\Z")
_ENV_SECRET = re.compile(
    rb"(?m)^\s*(?:export\s+)?\w*(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY|ACCESS_KEY)\w*\s*="
    rb"\s*[\"']?([^\s\"'$<{]{12,})"
)


def find_secret(data: bytes, path: str) -> ContentFinding | None:
    """The first secret in a small file, or ``None``; binary content is not searched.

    Args:
        data: the whole content.
        path: relative to the source; ``*.env`` files are read more strictly.
    """
    if b"\0" in data[:_SNIFF_BYTES]:
        return None
    if b"PRIVATE KEY" in data:
        for match in _PRIVATE_KEY.finditer(data):
            if _is_key_body(data[match.end() : match.end() + _KEY_BODY_BYTES]):
                return _finding("private key", data, match.start())
    if b"PuTTY-User-Key-File-" in data and (putty := _PUTTY_KEY.search(data)):
        return _finding("private key", data, putty.start())
    for token in _TOKENS:
        if token.needle in data:
            for match in token.regex.finditer(data):
                if looks_real(match[1], token.alphabet):
                    return _finding(token.label, data, match.start())
    if _ENV_FILE.match(path.lower()):
        for match in _ENV_SECRET.finditer(data):
            if looks_real(match[1], 62):
                return _finding("secret in an environment file", data, match.start())
    return None


def is_public_material(data: bytes) -> bool:
    """Whether a file with the name of a key holds only certificates or public keys, or is no key at all."""
    if data.startswith(b"PK\x03\x04"):  # a Keynote presentation is a zip archive called *.key
        return True
    blocks: list[bytes] = _PEM_BLOCK.findall(data)
    return bool(blocks) and all(_PUBLIC_BLOCK.fullmatch(block) for block in blocks)


def looks_real(value: bytes, alphabet: int) -> bool:
    """Whether a value is as irregular as a generated one, rather than a placeholder.

    Args:
        alphabet: how many different characters a generated value can hold.
    """
    return not _FAKE_WORDS.search(value) and _is_irregular(value, alphabet)


def _is_irregular(value: bytes, alphabet: int) -> bool:
    most_bits = min(math.log2(len(value)), math.log2(alphabet))
    return _entropy_bits(value) >= _REAL_ENTROPY_FRAC * most_bits


def _is_key_body(after: bytes) -> bool:
    body = _KEY_HEADER_LINE.sub(b"", after.partition(b"-----END")[0])
    body = _KEY_NOISE.sub(b"", body)
    text = re.match(rb"[A-Za-z0-9/=]*", body)
    length = text.end() if text else 0
    found = body[:length]
    return length >= _KEY_BODY_MIN and not _FAKE_KEY_WORDS.search(found) and _is_irregular(found, 64)


def _entropy_bits(value: bytes) -> float:
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)


def _finding(rule: str, data: bytes, offset: int) -> ContentFinding:
    return ContentFinding(rule, data.count(b"\n", 0, offset) + 1)
