"""A limit on a whole conversation: a socket's own time-out starts anew with every byte that drips in."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ends_within(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down when the time is up, whatever the other side still sends.

    Whoever reads from it then meets its end, as if the other side had hung up. It holds for the connection, not for
    the object: one that is wrapped for TLS meanwhile gives its descriptor away, and could not be shut down any more.
    """
    held = socket.fromfd(connection.fileno(), connection.family, connection.type)
    timer = threading.Timer(seconds, _shut_down, (held,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # Closed only when the timer can no longer use it: the descriptor may be another connection's next.
        timer.join()
        held.close()


def _shut_down(held: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side may have hung up before
        held.shutdown(socket.SHUT_RDWR)
