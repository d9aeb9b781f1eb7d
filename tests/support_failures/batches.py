"""All batches of generated failures and endings, in the order in which they were written."""

from __future__ import annotations

from collections.abc import Callable

from tests.support_failures import faults_five, faults_four, faults_one, faults_six, faults_three, faults_two
from tests.support_failures.model import Fault

FAULTS: tuple[Fault, ...] = (
    *faults_one.FAULTS,
    *faults_two.FAULTS,
    *faults_three.FAULTS,
    *faults_four.FAULTS,
    *faults_five.FAULTS,
    *faults_six.FAULTS,
)
ENDINGS: dict[str, Callable[[], bytes | str]] = {**faults_four.ENDINGS, **faults_five.ENDINGS, **faults_six.ENDINGS}
QUIRKS: tuple[tuple[str, ...], ...] = (
    (),
    ("ranks",),
    ("crlf", "echo_first"),
    ("k8s_ts",),
    ("nonutf8", "glued"),
    ("recovered",),
    ("no_echo",),
)
"""Forms of logs (see ``worlds.build``) that the failures take in turn."""
