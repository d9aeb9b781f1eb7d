"""Notices by e-mail."""

from __future__ import annotations

import hashlib
import smtplib
import socket
import ssl
from email.message import EmailMessage

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import Notice
from lucid_pipelines.resources.notifiers.deadline import ends_within
from lucid_pipelines.settings import EmailSettings

_SUBJECT_CHARS = 160


class EmailNotifier:
    """Sends plain text over SMTP; the Message-ID is made of the notice's key, so that a repetition can be told."""

    def __init__(self, chosen: EmailSettings, password: str | None = None) -> None:
        self._chosen = chosen
        self._password = password

    def send(self, notice: Notice, timeout_s: float) -> None:
        chosen = self._chosen
        try:
            server = self._server(timeout_s)
            # The farewell, which the server's own block speaks, is within the limit too.
            with ends_within(_socket_of(server), timeout_s), server:
                if chosen.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if chosen.user is not None and self._password is not None:
                    server.login(chosen.user, self._password)
                server.send_message(self._message(notice))
        except smtplib.SMTPRecipientsRefused as error:
            raise InputError(f"the mail server at {chosen.host} refuses every address in hooks.email.to") from error
        except (OSError, smtplib.SMTPException) as error:
            raise ExternalError(f"no mail can be sent through {chosen.host}: {type(error).__name__}") from error

    def _server(self, timeout_s: float) -> smtplib.SMTP:
        host, port = self._chosen.host or "", self._chosen.port
        if self._chosen.security == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=ssl.create_default_context())
        return smtplib.SMTP(host, port, timeout=timeout_s)

    def _message(self, notice: Notice) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = " ".join(f"[lucid] {notice.subject}".split())[:_SUBJECT_CHARS]
        message["From"] = self._chosen.sender
        message["To"] = ", ".join(self._chosen.to)
        message["Date"] = notice.at
        message["Message-ID"] = f"<{hashlib.sha256(notice.key.encode()).hexdigest()[:32]}@lucid-pipelines>"
        facts = "\n".join(f"{name}: {value}" for name, value in notice.facts.items())
        message.set_content(f"{facts}\n\n{notice.text}\n" if facts else f"{notice.text}\n")
        return message


def _socket_of(server: smtplib.SMTP) -> socket.socket:
    if server.sock is None:
        raise smtplib.SMTPServerDisconnected("the mail server hung up")
    return server.sock
