"""Ports of this machine that nobody listens on."""

from __future__ import annotations

import itertools
import os
import socket

_begin = itertools.count(24000 + os.getpid() * 97 % 4000, 40)


def free_ports(count: int) -> int:
    """The first of so many free ports in a row; every call begins elsewhere."""
    for first in range(next(_begin), 32000, count):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
