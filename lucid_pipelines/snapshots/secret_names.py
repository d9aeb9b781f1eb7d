"""Files that hold credentials by convention: recognised by name, without being read."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NameRule:
    """What a name gives away. ``may_be_public``: the content can show that it is harmless."""

    label: str
    may_be_public: bool = False


_SAMPLE = re.compile(
    r"(?:^|[._-])(?:example|examples|sample|template|tmpl|tpl|dist|dummy|fake|mock|schema)(?:[._-]|$)"
    r"|[._-]defaults?$"
)
_CODE = r"\.(?:pub|py|pyi|md|rst|html|sh|c|h|cc|cpp|go|rs|js|ts|java|rb)"
_DATA = r"\.(?:json|ya?ml|toml|ini|csv|xml|db|txt|properties|cfg|conf|env|enc)"

_FILES: tuple[tuple[re.Pattern[str], NameRule], ...] = tuple(
    (re.compile(rf"(?:{pattern})\Z"), rule)
    for pattern, rule in (
        (r"\.env(?:[._-].*)?|\.envrc", NameRule("environment file")),
        (rf"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?!.*{_CODE}\Z).*", NameRule("SSH private key")),
        (r".*\.(?:pem|key)", NameRule("key file", may_be_public=True)),
        (r".*\.(?:p12|pfx|jks|keystore|bcfks|kdbx|ppk|pkcs12)", NameRule("key store")),
        (rf"(?:.*[._-])?credentials?(?:{_DATA})?", NameRule("credentials file")),
        (rf"(?:.*[._-])?secrets?{_DATA}|\.secrets?", NameRule("secrets file")),
        (r"client_secret.*\.json", NameRule("OAuth client secret")),
        (r"[._]netrc|\.git-credentials|\.pgpass|\.my\.cnf|\.htpasswd", NameRule("password file")),
        (r"\.pypirc|\.dockercfg|\.s3cfg|\.boto|\.databrickscfg|\.vault-token", NameRule("service credentials")),
        (r"kaggle\.json|rclone\.conf|\.modal\.toml", NameRule("service credentials")),
        (r"(?:.*[._-])?kubeconfig(?:\.ya?ml)?", NameRule("Kubernetes credentials")),
    )
)

_DIRECTORIES = {
    ".aws": "cloud credentials",
    ".azure": "cloud credentials",
    ".gnupg": "PGP keys",
    ".kube": "Kubernetes credentials",
    ".ssh": "SSH keys",
}
_PATHS = {
    ".config/gcloud/": "cloud credentials",
    ".docker/config.json": "registry credentials",
    ".huggingface/token": "Hugging Face token",
    "huggingface/token": "Hugging Face token",
    ".streamlit/secrets.toml": "secrets file",
}


def secret_name(path: str, *, is_directory: bool) -> NameRule | None:
    """What the name of an entry says about it, or ``None``.

    Samples such as ``.env.example`` and public halves such as ``id_rsa.pub`` are no secrets.

    Args:
        path: relative to the source.
    """
    name = path.rpartition("/")[2].lower()
    if is_directory:
        label = _DIRECTORIES.get(name) or _by_path(f"{path}/")
        return NameRule(label) if label else None
    if label := _by_path(path):
        return NameRule(label)
    if _SAMPLE.search(name):
        return None
    for pattern, rule in _FILES:
        if pattern.match(name):
            return rule
    return None


def _by_path(path: str) -> str | None:
    for suffix, label in _PATHS.items():
        if path.endswith(suffix) and (len(path) == len(suffix) or path[-len(suffix) - 1] == "/"):
            return label
    return None
