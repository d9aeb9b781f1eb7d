"""Ways to tell people behind the Notifier port: webhook, chat, e-mail. All are off unless the settings name them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.ports import Notifier
from lucid_pipelines.resources.notifiers.email import EmailNotifier
from lucid_pipelines.resources.notifiers.webhook import SlackNotifier, WebhookNotifier
from lucid_pipelines.settings import HooksSettings


def configured_notifiers(chosen: HooksSettings) -> Mapping[str, Notifier]:
    """The channels that are set up, by name.

    Raises:
        InputError: a channel names an environment variable that is not set.
    """
    found: dict[str, Notifier] = {}
    if chosen.webhook.url is not None:
        secret = _secret(chosen.webhook.secret_env) if chosen.webhook.secret_env else None
        found["webhook"] = WebhookNotifier(chosen.webhook.url, secret, allow_private=chosen.webhook.allow_private)
    if chosen.slack.url_env is not None:
        found["slack"] = SlackNotifier(_secret(chosen.slack.url_env), allow_private=chosen.slack.allow_private)
    if chosen.email.host is not None:
        password = _secret(chosen.email.password_env) if chosen.email.password_env else None
        found["email"] = EmailNotifier(chosen.email, password)
    return found


def _secret(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise InputError(
            f"a hook's secret is read from the environment; set this variable or switch the hook off: {variable}"
        )
    return value


__all__ = ["EmailNotifier", "SlackNotifier", "WebhookNotifier", "configured_notifiers"]
