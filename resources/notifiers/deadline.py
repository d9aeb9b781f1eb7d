"""A limit on a whole conversation: a socket's own time-out starts anew with every byte that drips in."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ends_within(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down when the time is up, whatever the other side still sends.

    Whoever reads from it then meets its end, as if the other side had hung up.
    """
    timer = threading.Timer(seconds, _shut_down, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # The plain socket's way, also below TLS: an orderly farewell could wait for the other side again.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
