"""Write the Dagster instance's configuration from our settings. Dagster itself is not imported here."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.settings import Settings
from lucid_pipelines.whole_files import write_whole

LOCATION_NAME = "lucid"
MODULE_NAME = "lucid_pipelines.definitions"
_MAX_SOCKET_PATH = 100
"""Linux allows 107 bytes for a Unix socket's path; some is kept for the longest name below."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Sockets, pid files and logs of the running service."""

    folder: Path
    socket_folder: Path

    @property
    def code_server_socket(self) -> Path:
        return self.socket_folder / "code.sock"

    @property
    def run_server_socket(self) -> Path:
        return self.socket_folder / "runs.sock"

    @property
    def lock(self) -> Path:
        return self.folder / "service.lock"

    @property
    def status(self) -> Path:
        return self.folder / "service.json"

    def log(self, process: str) -> Path:
        return self.folder / f"{process}.log"


def run_files(settings: Settings) -> RunFiles:
    """Where the running service keeps its sockets, pid file and logs; folders are created."""
    folder = settings.home / "run"
    folder.mkdir(parents=True, exist_ok=True)
    sockets = folder
    if len(str(folder)) + len("/runs.sock") > _MAX_SOCKET_PATH:
        digest = hashlib.sha256(str(settings.home).encode()).hexdigest()[:16]
        sockets = Path(tempfile.gettempdir()) / f"lucid-{os.getuid()}-{digest}"
        sockets.mkdir(mode=0o700, exist_ok=True)
        if sockets.stat().st_uid != os.getuid():
            raise InputError(f"the folder for sockets belongs to another user; remove it: {sockets}")
    return RunFiles(folder, sockets)


def write_dagster_home(settings: Settings) -> Path:
    """Create ``DAGSTER_HOME`` with its ``dagster.yaml`` and the workspace file. Returns the workspace file."""
    home = settings.dagster_home
    home.mkdir(parents=True, exist_ok=True)
    files = run_files(settings)
    _write_yaml(home / "dagster.yaml", dagster_yaml(settings, files))
    workspace = home / "workspace.yaml"
    server = {"socket": str(files.code_server_socket), "location_name": LOCATION_NAME}
    _write_yaml(workspace, {"load_from": [{"grpc_server": server}]})
    return workspace


def dagster_yaml(settings: Settings, files: RunFiles) -> dict[str, object]:
    """The instance configuration; each choice has its reason in ``docs/decisions/0002-dagster-instance.md``."""
    config: dict[str, object] = {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "storage": _storage(settings),
        "run_coordinator": {
            "module": "dagster._core.run_coordinator",
            "class": "DefaultRunCoordinator",
        },
        "run_monitoring": {
            "enabled": True,
            "poll_interval_seconds": 15,
            "start_timeout_seconds": 180,
            "cancel_timeout_seconds": 60,
            "free_slots_after_run_end_seconds": 30,
        },
        # Only runs that ask for it by a tag are started again, and only when their process died.
        "run_retries": {"enabled": True, "max_retries": 0, "retry_on_asset_or_op_failure": False},
        "sensors": {"use_threads": True, "num_workers": 4, "num_submit_workers": 4},
        "schedules": {"use_threads": True, "num_workers": 2},
        # Dagster would delete old ticks after every tick, which costs more than the tick; maintenance_job does it.
        "retention": {
            "sensor": {"purge_after_days": -1},
            "schedule": {"purge_after_days": {"skipped": 7, "success": 90, "failure": 90, "started": 7}},
        },
    }
    if settings.dagster.warm_runs:
        config["run_launcher"] = {
            "module": "lucid_pipelines.resources.run_launcher",
            "class": "WarmRunLauncher",
            "config": {"socket": str(files.run_server_socket)},
        }
    return config


def _storage(settings: Settings) -> dict[str, object]:
    url = settings.dagster.storage_url
    if url is None:
        return {"sqlite": {"base_dir": str(settings.dagster_home / "storage")}}
    parts = urlsplit(url)
    if not parts.scheme.startswith("postgres") or not parts.path.strip("/"):
        raise InputError(f"dagster.storage_url must be postgresql://user:password@host:port/database; got {url!r}")
    postgres_db: dict[str, object] = {
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "hostname": parts.hostname or "localhost",
        "db_name": parts.path.strip("/"),
        "port": parts.port or 5432,
        # SQLAlchemy 2.1 would look for psycopg 3 under the plain scheme.
        "scheme": "postgresql+psycopg2",
    }
    return {"postgres": {"postgres_db": postgres_db}}


def _write_yaml(path: Path, content: dict[str, object]) -> None:
    write_whole(path, yaml.safe_dump(content, sort_keys=False))
