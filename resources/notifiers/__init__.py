"""Ways to tell people behind the Notifier port: webhook, chat, e-mail. All are off unless the settings name them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import Notice, Notifier
from lucid_pipelines.resources.notifiers.email import EmailNotifier
from lucid_pipelines.resources.notifiers.webhook import SlackNotifier, WebhookNotifier
from lucid_pipelines.settings import HooksSettings


@dataclass(frozen=True, slots=True)
class SecretNotifier:
    """A channel whose secret is read when something is sent: who only looks at jobs need not have it."""

    variable: str
    make: Callable[[str], Notifier]

    def send(self, notice: Notice, timeout_s: float) -> None:
        """See the port. Raises ``ExternalError`` while the variable is not set."""
        secret = os.environ.get(self.variable, "")
        if not secret:
            raise ExternalError(f"the hook's secret is not in the environment of the service: {self.variable}")
        self.make(secret).send(notice, timeout_s)


def configured_notifiers(chosen: HooksSettings) -> Mapping[str, Notifier]:
    """The channels that are set up, by name."""
    webhook, slack, email = chosen.webhook, chosen.slack, chosen.email
    found: dict[str, Notifier] = {}
    if webhook.url is not None:
        url, private = webhook.url, webhook.allow_private
        found["webhook"] = WebhookNotifier(url, allow_private=private)
        if webhook.secret_env is not None:
            found["webhook"] = SecretNotifier(
                webhook.secret_env, lambda secret: WebhookNotifier(url, secret, allow_private=private)
            )
    if slack.url_env is not None:
        found["slack"] = SecretNotifier(
            slack.url_env, lambda secret: SlackNotifier(secret, allow_private=slack.allow_private)
        )
    if email.host is not None:
        found["email"] = EmailNotifier(email)
        if email.password_env is not None:
            found["email"] = SecretNotifier(email.password_env, lambda secret: EmailNotifier(email, secret))
    return found


def missing_secrets(chosen: HooksSettings) -> list[str]:
    """Environment variables that the settings name and that are not set here."""
    named = (chosen.webhook.secret_env, chosen.slack.url_env, chosen.email.password_env)
    return [variable for variable in named if variable is not None and not os.environ.get(variable)]


__all__ = ["EmailNotifier", "SlackNotifier", "WebhookNotifier", "configured_notifiers", "missing_secrets"]
