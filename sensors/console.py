"""The console logger of every run: warnings and errors only."""

import logging

from dagster import InitLoggerContext, logger


@logger(description="Warnings and errors only: every event of a run is in the UI anyhow.")
def quiet_console(context: InitLoggerContext) -> logging.Logger:
    """What a run prints ends in the run server's log file."""
    del context
    console = logging.Logger("lucid_pipelines.run", level=logging.WARNING)
    console.addHandler(logging.StreamHandler())
    return console


LOGGERS = {"console": quiet_console}
