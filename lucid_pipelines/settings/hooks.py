"""Whom to tell, and of what."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lucid_pipelines.settings.section import Section


class WebhookSettings(Section):
    """A receiver of JSON by HTTP POST."""

    url: str | None = Field(default=None, pattern=r"^https?://", description="null = off.")
    secret_env: str | None = Field(
        default=None, description="Environment variable with the key of the X-Lucid-Signature header (HMAC-SHA256)."
    )
    allow_private: bool = Field(default=False, description="Allow an address of the own network or machine.")


class SlackSettings(Section):
    """A chat's incoming webhook (Slack, Mattermost, …). Its URL is a secret, so it is read from the environment."""

    url_env: str | None = Field(default=None, description="Environment variable that holds the URL; null = off.")
    allow_private: bool = False


class EmailSettings(Section):
    """An SMTP server that takes mail."""

    host: str | None = Field(default=None, description="null = off.")
    port: int = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password_env: str | None = None
    sender: str = "lucid@localhost"
    to: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _someone_reads_it(self) -> EmailSettings:
        if self.host is not None and not self.to:
            raise ValueError("name at least one address in hooks.email.to")
        return self


OCCASIONS = ("failure", "approval", "isolation", "hang", "straggler", "lag", "reliability")


class HooksSettings(Section):
    """Who is told of what; every channel is off by default."""

    tell: tuple[Literal["failure", "approval", "isolation", "hang", "straggler", "lag", "reliability"], ...] = OCCASIONS
    lag_alarm_s: float = Field(default=120.0, gt=0, description="Wait of the oldest unhandled exit that is an alarm.")
    webhook: WebhookSettings = WebhookSettings()
    slack: SlackSettings = SlackSettings()
    email: EmailSettings = EmailSettings()
