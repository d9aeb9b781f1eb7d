"""A loopback server that speaks the OpenAI protocol, with the bad habits of real ones."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Habit = Callable[["Reply", Mapping[str, Any]], None]
"""What the server does with one request."""


class Reply(BaseHTTPRequestHandler):
    """One request. Habits write to it."""

    protocol_version = "HTTP/1.1"
    server: ModelServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        request = json.loads(self.rfile.read(size))
        self.server.seen.append(request)
        habits = self.server.habits
        habit = habits.pop(0) if len(habits) > 1 else habits[0]
        habit(self, request)

    def send_json(self, data: object, status: int = 200) -> None:
        self.send_text(json.dumps(data), status)

    def send_text(self, text: str, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class ModelServer(ThreadingHTTPServer):
    """The server. ``seen`` holds every request; ``habits`` what to do with the next ones, the last for ever."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, habits: Sequence[Habit]) -> None:
        super().__init__(("127.0.0.1", 0), Reply)
        self.seen: list[dict[str, Any]] = []
        self.habits = list(habits)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serving(*habits: Habit) -> Iterator[ModelServer]:
    """Run a server with these habits."""
    server = ModelServer(habits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def chat(content: object, finish: str = "stop", usage: object | None = None) -> dict[str, Any]:
    """A chat completion whose message is ``content``, as JSON unless it is a text."""
    text = content if isinstance(content, str) else json.dumps(content)
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "test",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": usage if usage is not None else {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def says(content: object, finish: str = "stop") -> Habit:
    """Answer as asked."""
    return lambda reply, _request: reply.send_json(chat(content, finish))


def raw(text: str, status: int = 200) -> Habit:
    """Answer with any text at all."""
    return lambda reply, _request: reply.send_text(text, status)


def fails(status: int) -> Habit:
    """Answer with an HTTP error."""
    return lambda reply, _request: reply.send_json({"error": {"message": "something broke"}}, status)


def hangs(seconds: float) -> Habit:
    """Say nothing for a while."""

    def habit(reply: Reply, _request: Mapping[str, Any]) -> None:
        time.sleep(seconds)
        reply.close_connection = True

    return habit


def hangs_up(reply: Reply, _request: Mapping[str, Any]) -> None:
    """Close the connection without an answer."""
    reply.close_connection = True
    reply.connection.close()


def drips(seconds: float) -> Habit:
    """Send a byte now and then, so that no read ever times out."""

    def habit(reply: Reply, _request: Mapping[str, Any]) -> None:
        reply.send_response(200)
        reply.send_header("Content-Type", "application/json")
        reply.send_header("Content-Length", "100000")
        reply.end_headers()
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                reply.wfile.write(b" ")
                reply.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass
        reply.close_connection = True

    return habit


def never_ends(reply: Reply, _request: Mapping[str, Any]) -> None:
    """Send more and more."""
    reply.send_response(200)
    reply.send_header("Content-Type", "application/json")
    reply.send_header("Content-Length", str(10**12))
    reply.end_headers()
    try:
        while True:
            reply.wfile.write(b"x" * 65_536)
    except OSError:
        reply.close_connection = True


def embeds(vectors: Callable[[str], Sequence[float]], reverse: bool = False) -> Habit:
    """Answer ``/v1/embeddings``."""

    def habit(reply: Reply, request: Mapping[str, Any]) -> None:
        data = [
            {"object": "embedding", "index": place, "embedding": list(vectors(text))}
            for place, text in enumerate(request["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        listed = data[::-1] if reverse else data
        reply.send_json({"object": "list", "data": listed, "model": "test", "usage": usage})

    return habit
