"""Secrets do not leave the machine; numbers of tokens and prose about passwords may."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.redaction import HIDDEN, redacted, redacted_lines

SECRET = "Zx9hunter2Qw7"


@pytest.mark.parametrize(
    "text",
    [
        f"token={SECRET}",
        f"password: {SECRET}",
        f'"password": "{SECRET}"',
        f"'api_key': '{SECRET}', 'lr': 1",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}==",
        f"export WANDB_API_KEY={SECRET}",
        f"aws_secret_access_key = {SECRET}",
        f"AWS_SESSION_TOKEN={SECRET}",
        f"DB_PASSWD={SECRET}",
        f"connecting to postgres://ada:{SECRET}@db.example.com/x",
        f"GET https://x.example.com/d?sig={SECRET}&x=1",
        f"GET https://x.example.com/d?a=1&X-Amz-Signature={SECRET}",
        f"posting to https://hooks.slack.com/services/T000/B000/{SECRET}",
        f"train.py --password {SECRET} --lr 3",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"hf_{SECRET}",
        f"ghp_{SECRET}abcdef",
        f"glpat-{SECRET}-abcd",
        f"eyJhbGciOiJI.{SECRET}.abcd1234",
        f"client_secret='{SECRET}'",
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    assert SECRET not in redacted(text)
    assert HIDDEN in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "tokens per second: 12345.6",
        "num_tokens=4096, tokens=1.2B",
        "ValueError: the tokenizer has no pad token. Please set one",
        "max_tokens: 2048",
        "password authentication is off",
        "token=None",
        "api_key=${WANDB_API_KEY}",
        "https://example.com/path?page=3",
        "epoch 3 token 17",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text


@given(st.text(max_size=200))
def test_hiding_twice_hides_the_same(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


@pytest.mark.parametrize(
    "piece", ["token", "a_", "://a:", "?key=", "password ", "-----BEGIN PRIVATE KEY-----", "eyJa.", "x-"]
)
def test_long_texts_are_no_trap(piece: str) -> None:
    began = time.process_time()
    redacted(piece * 20_000)
    assert time.process_time() - began < 3.0


def test_every_line_of_a_private_key_is_hidden() -> None:
    lines = ["env: -----BEGIN RSA PRIVATE KEY-----", SECRET, "tail -----END RSA PRIVATE KEY----- step 3", "step 4"]
    assert redacted_lines(lines) == [f"env: {HIDDEN}", HIDDEN, f"{HIDDEN} step 3", "step 4"]
    assert redacted_lines(["-----BEGIN PRIVATE KEY----- a -----END PRIVATE KEY-----", "step 5"]) == [HIDDEN, "step 5"]


def test_a_password_of_digits_is_a_password() -> None:
    assert "4711" not in redacted("password=4711")
