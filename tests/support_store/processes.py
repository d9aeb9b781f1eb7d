"""Run a function in real processes that begin together; forked, so that imports cost nothing."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_FORK = multiprocessing.get_context("fork")


def together(count: int, work: Callable[..., Any], *args: Any, timeout_s: float = 60.0) -> list[Any]:
    """Call ``work(number, *args)`` in ``count`` processes at once and return what they returned, in order.

    Raises:
        AssertionError: one of them raised or died; the message has its traceback.
    """
    barrier = _FORK.Barrier(count)
    pairs = [_FORK.Pipe(duplex=False) for _ in range(count)]
    processes = [
        _FORK.Process(target=_child, args=(sender, barrier, number, work, args), daemon=True)
        for number, (_, sender) in enumerate(pairs)
    ]
    for process in processes:
        process.start()
    try:
        return [_answer(receiver, process, timeout_s) for (receiver, _), process in zip(pairs, processes, strict=True)]
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()


def _child(sender: Connection, barrier: Any, number: int, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        barrier.wait(30)
        sender.send((True, work(number, *args)))
    except BaseException:  # noqa: BLE001 - the parent reports it
        sender.send((False, traceback.format_exc()))


def _answer(receiver: Connection, process: BaseProcess, timeout_s: float) -> Any:
    assert receiver.poll(timeout_s), f"a process gave no answer; exit code {process.exitcode}"
    good, value = receiver.recv()
    assert good, value
    return value
