"""What other machines ask of a node: requests on standard input, answers on standard output.

Sent to nodes (see ``agent_bundle.py``): standard library only, Python 3.9, Linux. It lives as long as the
connection that started it; what must outlive that is on the node's disk (``layout.py``, ``wrapper.py``).

A request is one line of JSON with ``op``, ``root`` and the operation's own keys, then ``payload_bytes`` bytes.
An answer is the line ``LUCID-ANSWER`` followed by a line of JSON, then ``payload_bytes`` bytes; whatever a login
script prints before it is passed over. An error is ``{"error": {"kind", "text"}}``.

Below the root, beside what ``layout.py`` describes::

    jobs/JOB/code           the job's copy of its code
    jobs/JOB/attempts/N     see wrapper.py
    archives/DIGEST.tar.gz  code as it was sent, one file a content hash
    root.json               names the disk: two nodes that show the same name share it
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from lucid_pipelines.domain.errors import ExternalError, LucidError
from lucid_pipelines.resources.clusters import attempts, node_archives, nvml_probe, wrapper
from lucid_pipelines.resources.clusters.launcher import install_wrapper
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES, Layout, checked_id, write_once
from lucid_pipelines.resources.clusters.node_archives import Body
from lucid_pipelines.resources.clusters.processes import attempt_of

ANSWER = b"LUCID-ANSWER"
OUTPUT_CHARS = 64 * 1024
Request = dict  # decoded JSON of the caller's making; every operation picks its own keys
Answer = dict


def main(argv: list[str]) -> int:
    """Serve requests until standard input ends: one after the other, so the caller opens several sessions."""
    source, out = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        answer, payload, goes_on = _serve(line, source)
        out.write(b"\n" + ANSWER + b"\n")
        out.write(json.dumps({**answer, "payload_bytes": len(payload)}).encode() + b"\n" + payload)
        out.flush()
        if not goes_on:
            return 1
    return 0


def _serve(line: bytes, source: BinaryIO) -> tuple[Answer, bytes, bool]:
    """One answer, and whether the stream is where the next request begins."""
    body = Body(source, 0)
    try:
        request = json.loads(line)
        body.left = int(request["payload_bytes"])
        layout = Layout(Path(request["root"]).expanduser())
        layout.create()
        answer, payload = _OPERATIONS[request["op"]](layout, request, body)
    except LucidError as error:
        answer, payload = {"error": {"kind": type(error).__name__, "text": str(error)}}, b""
    except OSError as error:
        answer, payload = {"error": {"kind": "ExternalError", "text": f"the node's disk refuses: {error}"}}, b""
    except (KeyError, TypeError, ValueError) as error:
        text = f"the request cannot be understood ({type(error).__name__}: {error}); was it cut off?"
        return {"error": {"kind": "ExternalError", "text": text}}, b"", False
    while body.left and body.read(1 << 18):
        pass
    return answer, payload, body.left == 0


def _hello(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    gpus, problem = None, None
    if request.get("read_gpus"):
        try:
            gpus = nvml_probe.read_gpus()
        except (OSError, AttributeError) as error:
            problem = str(error)
    disk = shutil.disk_usage(layout.root)
    return {
        "python": sys.version.split()[0],
        "hostname": socket.gethostname(),
        "boot_id": wrapper.boot_id(),
        "root": str(layout.root),
        "disk": write_once(layout.root / "root.json", {"name": os.urandom(16).hex()})["name"],
        "cpus": os.cpu_count(),
        "disk_free_mib": disk.free // 1048576,
        "has_nvml": nvml_probe.has_driver(),
        "gpus": gpus,
        "gpu_problem": problem,
    }, b""


def _launch(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    """Start an attempt; ``{"needs_code": true}`` when the archive must be sent first."""
    spec = request["spec"]
    job_dir = layout.root / "jobs" / checked_id(spec["job_id"])
    spec.update(
        attempt_dir=str(job_dir / "attempts" / str(int(spec["attempt_number"]))),
        output_dir=str(job_dir / "outputs"),
        checkpoint_dir=str(job_dir / "checkpoints"),
        cwd=str(job_dir / "code" / request["workdir"]),
    )
    if layout.find(checked_id(spec["attempt_id"])) is None and not node_archives.unpack_code(
        layout.root, request["digest"], job_dir / "code"
    ):
        return {"needs_code": True}, b""
    inherited = re.compile(request["inherited"])
    env = {name: value for name, value in os.environ.items() if inherited.fullmatch(name)}
    env.update(request["base_env"])
    spec["inherit_env"] = sorted(env)
    program = install_wrapper(layout.wrapper)
    log_path, already = attempts.launch(layout, spec, job_dir, program, env, float(request["timeout_s"]))
    return {"log_path": log_path, "already": already}, b""


def _store(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    node_archives.store(layout.root, request["digest"], body)
    return {}, b""


def _poll(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    seen = {attempt_id: attempts.look(layout, checked_id(attempt_id)) for attempt_id in request["ids"]}
    for attempt_id, one in seen.items():
        if one["sight"] == "exited":
            layout.unmark_live(attempt_id)
    return {"seen": seen}, b""


def _stop(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    attempts.stop(layout, checked_id(request["id"]), request["request"])
    return {}, b""


def _fence(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    return {"found": attempts.fence(layout, checked_id(request["id"]), float(request["patience_s"]))}, b""


def _read_log(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    folder = attempts.folder_of(layout, request["id"])
    offset, size = int(request["offset"]), int(request["max_bytes"])
    try:
        fd = os.open(folder / wrapper.LOG, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        folder.stat()
        return {"begin": 0, "size": 0, "identity": None}, b""
    try:
        status = os.fstat(fd)
        begin = offset if offset <= status.st_size else 0
        data = os.pread(fd, size, begin)
    finally:
        os.close(fd)
    return {"begin": begin, "size": status.st_size, "identity": f"{status.st_dev:x}-{status.st_ino:x}"}, data


def _profile(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    since_s = request["since_s"]
    return {"shown": attempts.shown(layout, request["id"], None if since_s is None else float(since_s))}, b""


def _sample(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    """Loads that live attempts declare, and NVML's readings where they are asked for."""
    loads: list[list[Any]] = []
    for attempt_id in layout.live_ids():
        sight = attempts.look(layout, attempt_id)["sight"]
        if sight in ("exited", "not_started"):
            continue
        try:
            folder = layout.attempts / attempt_id
            spec = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
            readings = wrapper.LoadReader(str(folder), spec["gpus"], spec["declared_load"]).latest()
        except (OSError, ValueError, KeyError):
            continue
        known = sight == "running"  # else whether its processes still use the GPUs is not known
        loads += [[reading[0], *(reading[1:] if known else (None, None, None))] for reading in readings]
    gpus = None
    if request.get("read_gpus"):
        try:
            gpus = nvml_probe.read_gpus()
        except (OSError, AttributeError) as error:
            raise ExternalError(f"its GPUs cannot be read: {error}") from error
    return {"loads": loads, "gpus": gpus}, b""


def _processes(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    """Processes of live attempts."""
    live = set(layout.live_ids())
    return {"pids": [pid for pid in wrapper.process_table() if attempt_of(pid) in live]}, b""


def _run(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    """Run a site's test to its end or its time limit; its output is cut to size."""
    argv = [str(word) for word in request["argv"]]
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        return {"status": None, "output": f"the command cannot be started: {error}"}, b""
    with process:
        try:
            output = process.communicate(timeout=float(request["timeout_s"]))[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {"status": None, "output": f"it did not end within {request['timeout_s']} s and was killed"}, b""
    return {"status": process.returncode, "output": output.decode("utf-8", "replace")[-OUTPUT_CHARS:]}, b""


def _pack_checkpoints(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    folder = layout.root / "jobs" / checked_id(request["job_id"]) / "checkpoints"
    data = node_archives.pack(folder, int(request["max_bytes"]))
    return {"is_too_large": data is None}, data or b""


def _unpack_checkpoints(layout: Layout, request: Request, body: Body) -> tuple[Answer, bytes]:
    folder = layout.root / "jobs" / checked_id(request["job_id"]) / "checkpoints"
    node_archives.unpack(body, folder)
    return {}, b""


_OPERATIONS: dict[str, Callable[[Layout, Request, Body], tuple[Answer, bytes]]] = {
    "hello": _hello,
    "launch": _launch,
    "store": _store,
    "poll": _poll,
    "stop": _stop,
    "fence": _fence,
    "read_log": _read_log,
    "profile": _profile,
    "sample": _sample,
    "processes": _processes,
    "run": _run,
    "pack_checkpoints": _pack_checkpoints,
    "unpack_checkpoints": _unpack_checkpoints,
}
