"""Webhook, chat and mail against servers on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import Notice
from lucid_pipelines.resources.notifiers import (
    EmailNotifier,
    SlackNotifier,
    WebhookNotifier,
    configured_notifiers,
    missing_secrets,
)
from lucid_pipelines.resources.notifiers.deadline import ends_within
from lucid_pipelines.settings import EmailSettings, HooksSettings

NOTICE = Notice(
    "failure:j-1-a1@webhook", "failure", "train (j-1): failed", "# page <!channel>", {"job": "j-1", "root": "a & <b>"},
    datetime(2026, 1, 5, tzinfo=UTC),
)  # fmt: skip


@contextmanager
def receiver(status: int = 200, headers: dict[str, str] | None = None) -> Iterator[tuple[str, list[dict[str, object]]]]:
    seen: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append({"path": self.path, "headers": dict(self.headers), "body": body})
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?token=s3cret", seen
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_gets_signed_json_with_the_same_key_at_every_try() -> None:
    with receiver() as (url, seen):
        notifier = WebhookNotifier(url, "key", allow_private=True)
        notifier.send(NOTICE, 5.0)
        notifier.send(NOTICE, 5.0)
    first, second = seen
    body = json.loads(first["body"])  # type: ignore[arg-type]
    assert (body["id"], body["kind"], body["facts"]["job"]) == (NOTICE.key, "failure", "j-1")
    digest = hmac.new(b"key", first["body"], hashlib.sha256).hexdigest()  # type: ignore[arg-type]
    assert first["headers"]["X-Lucid-Signature"] == f"sha256={digest}"  # type: ignore[index]
    assert first["headers"]["Idempotency-Key"] == second["headers"]["Idempotency-Key"]  # type: ignore[index]
    assert first["path"] == "/hook?token=s3cret"


def test_a_log_line_cannot_mention_a_channel() -> None:
    with receiver() as (url, seen):
        SlackNotifier(url, allow_private=True).send(NOTICE, 5.0)
    text = json.loads(seen[0]["body"])["text"]  # type: ignore[arg-type]
    assert "<" not in text and "a &amp; &lt;b&gt;" in text


@pytest.mark.parametrize(("status", "error"), [(500, ExternalError), (429, ExternalError), (404, InputError)])
def test_errors_tell_what_may_help_later_and_no_secret(status: int, error: type[Exception]) -> None:
    with receiver(status) as (url, _), pytest.raises(error) as raised:
        WebhookNotifier(url, allow_private=True).send(NOTICE, 5.0)
    assert str(status) in str(raised.value) and "s3cret" not in str(raised.value)


def test_a_redirect_is_not_followed() -> None:
    with receiver() as (target, reached), receiver(302, {"Location": target}) as (url, _), pytest.raises(InputError):
        WebhookNotifier(url, allow_private=True).send(NOTICE, 5.0)
    assert reached == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.8", "[::ffff:10.0.0.8]"]
)
def test_an_address_of_our_own_network_is_refused_unless_allowed(host: str) -> None:
    with pytest.raises(InputError, match="own network"):
        WebhookNotifier(f"http://{host}/x").send(NOTICE, 1.0)


def test_a_name_that_resolves_to_our_own_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443)),
              (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.168.1.1", 443))]  # fmt: skip
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: answer)
    with pytest.raises(InputError, match="own network"):
        WebhookNotifier("https://hooks.example.com/x").send(NOTICE, 1.0)


@pytest.mark.parametrize("url", ["ftp://x/y", "http://", "http://user:pw@host/", "http://host:0/", "http://[::1"])
def test_a_url_that_cannot_be_used_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InputError) as raised:
        WebhookNotifier(url)
    assert "pw" not in str(raised.value)


def test_a_closed_port_is_an_outage() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(ExternalError):
        WebhookNotifier(f"http://127.0.0.1:{port}/", allow_private=True).send(NOTICE, 1.0)


def _smtp(listener: socket.socket, said: list[str]) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rw", newline="\r\n") as stream:

        def answer(text: str) -> None:
            stream.write(text + "\r\n")
            stream.flush()

        answer("220 here")
        in_data = False
        for line in stream:
            text = line.rstrip("\r\n")
            said.append(text)
            if in_data:
                in_data = text != "."
                if not in_data:
                    answer("250 kept")
            elif text.upper() == "DATA":
                in_data = True
                answer("354 go on")
            elif text.upper() == "QUIT":
                answer("221 bye")
                return
            else:
                answer("250 fine")


def test_mail_is_plain_text_with_an_id_made_of_the_key() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_smtp, args=(listener, said), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        chosen = EmailSettings(host="127.0.0.1", port=port, security="none", to=("ops@example.com",))
        EmailNotifier(chosen).send(NOTICE, 5.0)
        thread.join(5)
    assert "Subject: [lucid] train (j-1): failed" in said
    assert any(line.startswith("Message-ID: <") for line in said)
    assert any(line.upper().startswith("RCPT TO:<OPS@EXAMPLE.COM>") for line in said)


def test_everything_is_off_by_default_and_a_missing_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a control plane does not need the secrets: only sending does."""
    assert configured_notifiers(HooksSettings()) == {}
    monkeypatch.delenv("CHAT_URL", raising=False)
    chosen = HooksSettings.model_validate({"slack": {"url_env": "CHAT_URL", "allow_private": True}})
    chat = configured_notifiers(chosen)["slack"]
    assert missing_secrets(chosen) == ["CHAT_URL"]
    with pytest.raises(ExternalError, match="CHAT_URL"):
        chat.send(NOTICE, 1.0)
    with receiver() as (url, seen):
        monkeypatch.setenv("CHAT_URL", url)
        chat.send(NOTICE, 5.0)
    assert len(seen) == 1 and missing_secrets(chosen) == []


@pytest.mark.parametrize(
    "host",
    [
        "[64:ff9b::a00:8]",
        "[2002:a00:8::1]",
        "[::10.0.0.8]",
        "[::ffff:0:10.0.0.8]",
        "[fec0::1]",
        "[ff02::1]",
        "[fe80::1%25eth0]",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "127.1",
        "100.64.0.1",
    ],
)
def test_an_address_of_our_own_network_is_refused_in_every_disguise(host: str) -> None:
    with pytest.raises((InputError, ExternalError)) as raised:
        WebhookNotifier(f"http://{host}/x").send(NOTICE, 1.0)
    assert "own network" in str(raised.value) or "has no address" in str(raised.value)


def test_a_name_is_resolved_once_and_its_checked_address_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80))],
               [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]]  # fmt: skip
    dialled: list[tuple[str, int]] = []

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: answers.pop(0))
    monkeypatch.setattr(socket, "create_connection", dial)
    with pytest.raises(ExternalError):
        WebhookNotifier("http://rebinds.example.com/x").send(NOTICE, 1.0)
    assert dialled == [("93.184.216.34", 80)]
    assert len(answers) == 1


@contextmanager
def dripping(first: bytes, drop: bytes) -> Iterator[int]:
    """A server that never stops sending, one piece every fifth of a second."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(first)
                while not over.wait(0.2):
                    connection.sendall(drop)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    ("first", "drop"),
    [(b"", b"H"), (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), (b"HTTP/1.1 200 OK\r\nX-Long: ", b"y")],
    ids=["status", "headers", "one header"],
)
def test_an_answer_that_drips_is_cut_off_in_time(first: bytes, drop: bytes) -> None:
    began = time.monotonic()
    # A receiver that has said 200 has said so, unless its answer breaks off before that was read.
    has_answered = first.startswith(b"HTTP/1.1 200")
    expected = contextlib.suppress(ExternalError) if has_answered else pytest.raises(ExternalError)
    with dripping(first, drop) as port, expected:
        WebhookNotifier(f"http://127.0.0.1:{port}/", allow_private=True).send(NOTICE, 1.0)
    assert time.monotonic() - began < 4.0


def test_a_body_without_end_is_not_waited_for() -> None:
    began = time.monotonic()
    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", b"z") as port:
        WebhookNotifier(f"http://127.0.0.1:{port}/", allow_private=True).send(NOTICE, 5.0)
    assert time.monotonic() - began < 3.0


def test_a_mail_server_that_drips_is_cut_off_in_time() -> None:
    began = time.monotonic()
    chosen = EmailSettings(host="127.0.0.1", security="none", to=("a@example.com",), sender="b@example.com")
    with dripping(b"220 here\r\n", b"250-more\r\n") as port, pytest.raises(ExternalError):
        EmailNotifier(chosen.model_copy(update={"port": port})).send(NOTICE, 1.0)
    assert time.monotonic() - began < 4.0


def test_the_limit_holds_when_the_connection_is_wrapped_for_tls_meanwhile() -> None:
    """As ``ssl`` and ``starttls`` do it: the object that was given loses its descriptor to another."""
    mine, theirs = socket.socketpair()
    began = time.monotonic()
    with theirs, ends_within(mine, 0.2), socket.socket(fileno=mine.detach()) as wrapped:
        wrapped.settimeout(5.0)
        assert wrapped.recv(1) == b""
    assert time.monotonic() - began < 3.0


def test_a_mail_server_whose_farewell_drips_is_cut_off_in_time_and_has_the_mail() -> None:
    began = time.monotonic()
    chosen = EmailSettings(host="127.0.0.1", security="none", to=("a@example.com",), sender="b@example.com")
    talk = b"220 here\r\n250 here\r\n250 sender\r\n250 recipient\r\n354 go\r\n250 taken\r\n"
    with dripping(talk, b"221-more\r\n") as port:
        EmailNotifier(chosen.model_copy(update={"port": port})).send(NOTICE, 1.0)
    assert time.monotonic() - began < 4.0


HANDSHAKE = b"\x16\x03\x03\x40\x00"
"""A TLS record of which 16 KiB are announced; they come drop by drop."""


def test_a_hook_whose_tls_handshake_drips_is_cut_off_in_time() -> None:
    began = time.monotonic()
    with dripping(HANDSHAKE, b"\x02") as port, pytest.raises(ExternalError):
        WebhookNotifier(f"https://127.0.0.1:{port}/", allow_private=True).send(NOTICE, 1.0)
    assert time.monotonic() - began < 4.0


def test_a_mail_server_whose_tls_handshake_drips_is_cut_off_in_time() -> None:
    began = time.monotonic()
    chosen = EmailSettings(host="127.0.0.1", security="starttls", to=("a@example.com",), sender="b@example.com")
    talk = b"220 here\r\n250-here\r\n250 STARTTLS\r\n220 go\r\n"
    with dripping(talk, HANDSHAKE) as port, pytest.raises(ExternalError):
        EmailNotifier(chosen.model_copy(update={"port": port})).send(NOTICE, 1.0)
    assert time.monotonic() - began < 4.0


@pytest.mark.parametrize("path", ["/a b", "/é", "/x\x7f", "/?q=ä"])
def test_a_url_with_other_characters_is_refused_at_once(path: str) -> None:
    with pytest.raises(InputError, match="plain characters"):
        WebhookNotifier(f"http://example.com{path}")
