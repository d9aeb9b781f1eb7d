"""The console logger of every run: warnings and errors only."""

import logging

from dagster import InitLoggerContext, LoggerDefinition


def _quiet_console(context: InitLoggerContext) -> logging.Logger:
    """What a run prints ends in the run server's log file."""
    del context
    console = logging.Logger("lucid_pipelines.run", level=logging.WARNING)
    console.addHandler(logging.StreamHandler())
    return console


quiet_console = LoggerDefinition(
    _quiet_console, description="Warnings and errors only: every event of a run is in the UI anyhow."
)
LOGGERS: dict[str, LoggerDefinition] = {"console": quiet_console}
