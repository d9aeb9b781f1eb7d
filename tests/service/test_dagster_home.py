"""The instance configuration that `lucid up` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.service.dagster_home import run_files, write_dagster_home
from lucid_pipelines.settings import Settings, load_settings


def settings(home: Path, **environ: str) -> Settings:
    return load_settings(home, environ=environ)


def test_the_instance_is_quiet_monitored_and_local(tmp_path: Path) -> None:
    workspace = write_dagster_home(settings(tmp_path / "home"))
    config = yaml.safe_load((tmp_path / "home" / "dagster" / "dagster.yaml").read_text())
    assert config["telemetry"] == {"enabled": False} and config["nux"] == {"enabled": False}
    assert config["run_monitoring"]["enabled"] and config["run_monitoring"]["free_slots_after_run_end_seconds"] > 0
    assert config["run_launcher"]["class"] == "WarmRunLauncher"
    (server,) = yaml.safe_load(workspace.read_text())["load_from"]
    assert server["grpc_server"]["socket"].endswith("code.sock"), "the code server listens on no network port"


def test_postgresql_storage_uses_psycopg2_and_decodes_the_password(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "home", LUCID__DAGSTER__STORAGE_URL="postgresql://ada:p%40ss@db:6432/dagster")
    write_dagster_home(chosen)
    config = yaml.safe_load((chosen.dagster_home / "dagster.yaml").read_text())
    assert config["storage"]["postgres"]["postgres_db"] == {
        "username": "ada",
        "password": "p@ss",
        "hostname": "db",
        "db_name": "dagster",
        "port": 6432,
        "scheme": "postgresql+psycopg2",
    }


def test_a_url_that_is_no_postgresql_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="postgresql://"):
        write_dagster_home(settings(tmp_path / "home", LUCID__DAGSTER__STORAGE_URL="mysql://x/y"))


def test_sockets_fit_below_a_deep_home(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60) / "home"
    files = run_files(settings(deep))
    assert len(str(files.run_server_socket)) <= 107
    assert files.socket_folder.stat().st_mode & 0o077 == 0, "nobody else may speak to the run server"
