"""Notices by HTTP: a plain JSON webhook, signed if a secret is set, and a chat's incoming webhook."""

from __future__ import annotations

import hashlib
import hmac
import json

from lucid_pipelines.ports import Notice
from lucid_pipelines.resources.notifiers.http import checked_url, post

_CHAT_CHARS = 2800


class WebhookNotifier:
    """POSTs ``{"id", "kind", "subject", "text", "facts", "at"}``.

    ``Idempotency-Key`` is the notice's key. With a secret, ``X-Lucid-Signature: sha256=…`` is the HMAC of the body.
    """

    def __init__(self, url: str, secret: str | None = None, *, allow_private: bool = False) -> None:
        self._parts = checked_url(url)
        self._secret = secret
        self._allow_private = allow_private

    def send(self, notice: Notice, timeout_s: float) -> None:
        body = json.dumps(
            {
                "id": notice.key,
                "kind": notice.kind,
                "subject": notice.subject,
                "text": notice.text,
                "facts": dict(notice.facts),
                "at": notice.at.isoformat(),
            },
            ensure_ascii=False,
        ).encode()
        headers = {"Idempotency-Key": hashlib.sha256(notice.key.encode()).hexdigest(), "User-Agent": "lucid-pipelines"}
        if self._secret is not None:
            digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Lucid-Signature"] = f"sha256={digest}"
        post(self._parts, body, headers, timeout_s, allow_private=self._allow_private)


class SlackNotifier:
    """POSTs ``{"text": …}``, which Slack, Mattermost and others take. Log lines cannot mention people or channels."""

    def __init__(self, url: str, *, allow_private: bool = False) -> None:
        self._parts = checked_url(url)
        self._allow_private = allow_private

    def send(self, notice: Notice, timeout_s: float) -> None:
        facts = "\n".join(f"• {name}: {value}" for name, value in notice.facts.items())
        said = f"*{_escaped(notice.subject)}*\n{_escaped(facts or notice.text)}"[:_CHAT_CHARS]
        body = json.dumps({"text": said}, ensure_ascii=False).encode()
        post(self._parts, body, {"User-Agent": "lucid-pipelines"}, timeout_s, allow_private=self._allow_private)


def _escaped(text: str) -> str:
    """As the protocol wants it: with these three replaced no ``<!channel>`` or link can stand in a log line."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
