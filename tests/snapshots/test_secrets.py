"""Secrets stay out and are told; what only looks like one stays in.

No real-looking secret is written down here: each is made up from a seeded generator.
"""

from __future__ import annotations

import base64
import random
import string
import textwrap
from pathlib import Path

import pytest

from lucid_pipelines.snapshots import SnapshotLimits, manifest, seal
from lucid_pipelines.snapshots.secret_contents import find_secret
from tests.support_snapshots.trees import put

_ALNUM = string.ascii_letters + string.digits
_URL = _ALNUM + "-_"
_BASE32 = string.ascii_uppercase + "234567"


def chars(alphabet: str, count: int, seed: int = 7) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=count))


def pem(kind: str, size: int = 600, seed: int = 7) -> str:
    body = base64.b64encode(random.Random(seed).randbytes(size)).decode()
    return f"-----BEGIN {kind}-----\n" + "\n".join(textwrap.wrap(body, 64)) + f"\n-----END {kind}-----\n"


TOKENS = {
    "aws id": "key = 'AKIA" + chars(_BASE32, 16) + "'",
    "aws secret": "aws_secret_access_key = " + chars(_ALNUM + "/+", 40),
    "github": "token: ghp_" + chars(_ALNUM, 36),
    "github fine": "github_pat_" + chars(_ALNUM, 22) + "_" + chars(_ALNUM, 59, 8),
    "gitlab": "glpat-" + chars(_URL, 20),
    "slack": "xoxb-" + chars(string.digits, 11) + "-" + chars(_ALNUM, 24),
    "slack hook": "https://hooks.slack.com/services/"
    + "/".join(("T" + chars(_ALNUM, 8), "B" + chars(_ALNUM, 8), chars(_ALNUM, 24))),
    "google": "AIza" + chars(_URL, 35),
    "openai": 'OPENAI_API_KEY="sk-' + chars(_ALNUM, 20) + "T3BlbkFJ" + chars(_ALNUM, 20, 9) + '"',
    "openai project": "sk-proj-" + chars(_URL, 80),
    "anthropic": "sk-ant-api03-" + chars(_URL, 93) + "AA",
    "hugging face": "login(token='hf_" + chars(_ALNUM, 34) + "')",
    "wandb": "os.environ['WANDB_API_KEY'] = '" + chars("0123456789abcdef", 40) + "'",
    "npm": "//registry.npmjs.org/:_authToken=npm_" + chars(_ALNUM, 36),
    "pypi": "password = pypi-AgE" + chars(_URL, 120),
    "stripe": "sk_live_" + chars(_ALNUM, 24),
    "azure": "AccountKey=" + chars(_ALNUM + "+/", 86) + "==",
    "databricks": "dapi" + chars("0123456789abcdef", 32),
    "telegram": chars("123456789", 9) + ":AA" + chars(_URL, 33),
    "pem": pem("PRIVATE KEY"),
    "rsa": pem("RSA PRIVATE KEY", 1200),
    "openssh": pem("OPENSSH PRIVATE KEY", 400),
    "encrypted": pem("ENCRYPTED PRIVATE KEY"),
    "pgp": "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n" + pem("x", 500).split("\n", 1)[1],
    "service account": '{"private_key": "' + pem("PRIVATE KEY").replace("\n", "\\n") + '"}',
    "indented": textwrap.indent(pem("EC PRIVATE KEY", 120), "    "),
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 1\n" + chars(_ALNUM, 48),
    "ed25519": pem("PRIVATE KEY", 48),
}  # fmt: skip


@pytest.mark.parametrize("kind", TOKENS)
def test_a_real_looking_token_is_found_on_its_line(kind: str) -> None:
    text = "import os\n\n# settings\n" + TOKENS[kind] + "\nprint('x')\n"
    finding = find_secret(text.encode(), "settings.py")
    assert finding is not None
    assert finding.line == 4


@pytest.mark.parametrize("seed", range(40))
def test_generated_keys_are_hardly_ever_missed(seed: int) -> None:
    openssh = pem("OPENSSH PRIVATE KEY", 1800, seed).replace(
        "-----\n", "-----\n" + base64.b64encode(b"openssh-key-v1" + bytes(4)).decode()[:18] + "AAAABG5vbmU\n", 1
    )
    assert find_secret(openssh.encode(), "a.txt")
    assert find_secret(f"x = 'ghp_{chars(_ALNUM, 36, seed)}'".encode(), "a.py")
    assert find_secret(f"AKIA{chars(_BASE32, 16, seed)}".encode(), "a.py")


HARMLESS = {
    "aws documentation": "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws documentation 2": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "placeholder": "token = 'ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
    "counting": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "repeated": "ghp_" + "ab" * 18,
    "your": "OPENAI_API_KEY=sk-proj-YOUR-KEY-HERE-YOUR-KEY-HERE-YOUR-KEY-HERE-1",
    "zeros": "WANDB_API_KEY=" + "0" * 40,
    "header only": 'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    raise ValueError("-----END")',
    "short fake key": "-----BEGIN PRIVATE KEY-----\nfake\n-----END PRIVATE KEY-----",
    "fake key body": "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n" + "A" * 64 + "\n-----END PRIVATE KEY-----",
    "certificate": pem("CERTIFICATE"),
    "public key": pem("PUBLIC KEY") + "ssh-rsa " + chars(_ALNUM, 300),
    "git hash": "commit " + chars("0123456789abcdef", 40),
    "base64 image": "data:image/png;base64," + chars(_ALNUM + "+/", 4000),
    "sha table": "\n".join(chars("0123456789abcdef", 64, n) for n in range(50)),
    "name": "hf_model_name_or_path = 'hf_internal_testing_tiny_random_model'",
    "environment": "token = os.environ['HF_TOKEN']\nkey = getpass('sk-proj-...')",
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_placeholders_and_public_things_stay(kind: str) -> None:
    assert find_secret(HARMLESS[kind].encode(), "module.py") is None


def test_binary_content_is_not_searched() -> None:
    assert find_secret(b"\0\1\2" + TOKENS["github"].encode(), "x.bin") is None


def test_env_files_of_any_name_are_read_more_strictly() -> None:
    line = f"DB_PASSWORD={chars(_ALNUM, 20)}\n".encode()
    assert find_secret(b"DEBUG=1\n" + line, "deploy/prod.env") is not None
    assert find_secret(b"DEBUG=1\nDB_PASSWORD=${FROM_VAULT_SOMEWHERE}\n", "prod.env") is None
    assert find_secret(line, "notes.txt") is None


KEPT_OUT = [
    ".env", ".env.local", ".env-prod", ".envrc", "sub/.env", "id_rsa", "keys/id_ed25519", "id_rsa.old", "server.pem",
    "tls/server.key", "store.p12", "store.jks", "credentials", "credentials.json", "aws_credentials.csv",
    "application_default_credentials.json", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".pgpass", "kubeconfig",
    "prod.kubeconfig", ".docker/config.json", ".config/gcloud/x", ".streamlit/secrets.toml", "secrets.yaml",
    "client_secret_12.json", "kaggle.json", ".aws/config", ".ssh/known", ".kube/config", "KEY.PEM",
]  # fmt: skip
LEFT_IN = [
    ".env.example", ".env.sample", "env.template.env", ".env.dist", "id_rsa.pub", "id_rsa_parser.py", "credentials.py",
    "secrets.py", "test_credentials.py", "credentials.example.json", "environment.yml", "keyboard.txt", "monkey.py",
    "public.pem", "signing.key", "slides.key", "docs/kubeconfig.md", "token.py",
]  # fmt: skip


def test_names(tmp_path: Path) -> None:
    for name in KEPT_OUT + LEFT_IN:
        put(tmp_path / "s", name, "DEBUG=1\n")
    put(tmp_path / "s", "public.pem", pem("CERTIFICATE") + pem("PUBLIC KEY"))
    put(tmp_path / "s", "signing.key", pem("PGP PUBLIC KEY BLOCK"))
    put(tmp_path / "s", "slides.key", b"PK\x03\x04" + bytes(100))
    sealed = seal(tmp_path / "s", tmp_path / "store")
    assert {entry.path for entry in manifest(sealed.digest, tmp_path / "store").files} == set(LEFT_IN)
    told = {finding.path for finding in sealed.secrets}
    for name in KEPT_OUT:
        assert name in told or any(name.startswith(place) for place in told if place.endswith("/")), name
    assert all(finding.rule and ".lucidignore" in finding.advice for finding in sealed.secrets)


def test_a_finding_never_repeats_the_secret(tmp_path: Path) -> None:
    secret = chars(_ALNUM, 36)
    put(tmp_path / "s", "train.py", f"import x\nTOKEN = 'ghp_{secret}'\n")
    (finding,) = seal(tmp_path / "s", tmp_path / "store").secrets
    assert (finding.path, finding.rule, finding.line) == ("train.py", "GitHub token", 2)
    assert secret not in repr(finding)
    for blob in (tmp_path / "store").rglob("*"):
        assert blob.is_dir() or secret.encode() not in blob.read_bytes()


def test_an_explicit_choice_includes_a_secret(tmp_path: Path) -> None:
    source = tmp_path / "s"
    for name in (".env", "a.pem", "b.pem", ".aws/config", ".aws/credentials"):
        put(source, name, "x")
    put(source, "train.py", TOKENS["github"])
    put(source, "other.py", TOKENS["github"])
    put(source, ".lucidignore", "!.env\n!*.pem\n!train.py\n!.aws/config\n")
    sealed = seal(source, tmp_path / "store")
    found = {entry.path for entry in manifest(sealed.digest, tmp_path / "store").files}
    assert found == {".env", "a.pem", "b.pem", ".aws/config", "train.py", ".lucidignore"}
    assert [finding.path for finding in sealed.secrets] == [".aws/", "other.py"]


@pytest.mark.parametrize("rules", ["*\n!*/\n!*\n", "*\n!src/\n!src/**\n", "!/**\n"])
def test_a_list_of_what_to_include_is_no_choice_of_secrets(tmp_path: Path, rules: str) -> None:
    source = tmp_path / "s"
    put(source, "src/.env", "x")
    put(source, "src/train.py", TOKENS["hugging face"])
    put(source, "src/ok.py", "x")
    put(source, ".lucidignore", rules)
    sealed = seal(source, tmp_path / "store")
    found = {entry.path for entry in manifest(sealed.digest, tmp_path / "store").files}
    assert found - {".lucidignore"} == {"src/ok.py"}
    assert {finding.path for finding in sealed.secrets} == {"src/.env", "src/train.py"}


def test_the_search_has_a_budget_that_is_told_and_repeats_itself(tmp_path: Path) -> None:
    source = tmp_path / "s"
    put(source, "a-small.py", TOKENS["github"])
    put(source, "z-large.py", TOKENS["github"] + "\n" + "x = 1\n" * 10_000)
    small_budget = SnapshotLimits(max_searched_bytes=2_000)
    first = seal(source, tmp_path / "store", limits=small_budget)
    assert [finding.path for finding in first.secrets] == ["a-small.py"]
    assert "1 files (58.6 KiB) were not searched" in first.warnings[0]
    assert seal(source, tmp_path / "store", limits=small_budget).digest == first.digest
    assert len(seal(source, tmp_path / "store").secrets) == 2


@pytest.mark.parametrize("folder", ["lucid_pipelines", "examples", "tests/snapshots"])
def test_this_project_holds_no_secrets_and_says_so(tmp_path: Path, folder: str) -> None:
    sealed = seal(Path(__file__).parents[2] / folder, tmp_path / "store")
    assert sealed.secrets == ()
    assert sealed.file_count > 10
