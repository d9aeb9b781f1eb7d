"""Open, migrate, refuse: what happens at the door of the state database."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from lucid_pipelines.domain.errors import ExternalError, InputError, StateError
from lucid_pipelines.store import Store
from lucid_pipelines.store.database import Database
from lucid_pipelines.store.engine import make_engine
from lucid_pipelines.store.migrations import VERSION_TABLE, revisions
from lucid_pipelines.store.migrations.runner import head
from lucid_pipelines.store.tables import metadata
from lucid_pipelines.store.url import database_url, shown
from tests.support_pg.server import PostgresServer
from tests.support_store.jobs import NOW, make_spec
from tests.support_store.processes import together


def _database(url: str) -> Database:
    parsed = database_url(url)
    return Database(make_engine(parsed, busy_timeout_s=5, durable=False, pool_size=1), parsed)


def test_migrations_build_exactly_the_tables_of_the_program(empty_url: str) -> None:
    Store.open(empty_url).close()
    database = _database(empty_url)
    with database._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []
    database.dispose()


def test_the_newest_file_is_the_only_head_alembic_sees() -> None:
    assert head() == revisions()[-1]


def test_many_processes_open_a_fresh_database_at_once_and_all_succeed(empty_url: str) -> None:
    answers = together(6, _open_and_submit, empty_url)
    assert len({job_id for job_id, _ in answers}) == 1
    assert sorted(created for _, created in answers) == [False] * 5 + [True]


def _open_and_submit(_: int, url: str) -> tuple[str, bool]:
    with Store.open(url) as store:
        job, created = store.jobs.submit(make_spec(idempotency_key="same"), NOW)
        return job.job_id, created


def test_opening_again_changes_nothing(store_url: str) -> None:
    with Store.open(store_url) as store:
        job, _ = store.jobs.submit(make_spec(), NOW)
        before = store.change_counter()
    with Store.open(store_url) as store:
        assert store.jobs.get(job.job_id) == job
        assert store.change_counter() == before


def test_a_database_from_a_newer_program_is_refused(store_url: str) -> None:
    database = _database(store_url)
    database.write(lambda tx: tx.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))
    database.dispose()
    with pytest.raises(StateError, match=r"newer than this program.*9999"):
        Store.open(store_url)


def test_without_migrations_an_empty_database_is_refused_and_left_empty(empty_url: str) -> None:
    with pytest.raises(StateError, match="not up to date"):
        Store.open(empty_url, migrate=False)
    database = _database(empty_url)
    assert database.read(lambda c: c.dialect.has_table(c, "jobs")) is False
    database.dispose()


def test_a_half_done_migration_is_undone(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lucid_pipelines.store.migrations import runner

    real = runner.upgrade_to_head

    def broken(connection: object) -> None:
        real(connection)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "upgrade_to_head", broken)
    with pytest.raises(KeyboardInterrupt):
        Store.open(empty_url)
    monkeypatch.undo()
    database = _database(empty_url)
    assert database.read(lambda c: c.dialect.has_table(c, "jobs")) is False
    database.dispose()
    with Store.open(empty_url) as store:
        assert store.change_counter() == 0


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("mysql://x/y", "sqlite:// or postgresql://"),
        ("postgresq://x/y", "did you mean 'postgresql'"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("://", "a path or a URL"),
    ],
)
def test_other_urls_are_refused_with_advice(where: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Store.open(where)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg2", "postgresql+asyncpg"])
def test_postgres_urls_mean_psycopg2(scheme: str) -> None:
    url = f"{scheme}://u:secret@h/d"
    if scheme.endswith("asyncpg"):
        with pytest.raises(InputError):
            database_url(url)
        return
    assert database_url(url).drivername == "postgresql+psycopg2"
    assert "secret" not in shown(database_url(url))


def test_a_path_with_odd_characters_is_a_database(tmp_path: Path) -> None:
    path = tmp_path / "a b%20?c#d ü" / "state.db"
    with Store.open(path) as store:
        store.jobs.submit(make_spec(), NOW)
    assert path.exists()


def test_a_relative_path_means_the_same_file_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for where in ("plain.db", "sqlite:///by-url.db"):
        with Store.open(where, pool_size=1) as store:
            (tmp_path / "elsewhere").mkdir(exist_ok=True)
            monkeypatch.chdir(tmp_path / "elsewhere")
            store._database.dispose()  # forces a new connection
            store.jobs.submit(make_spec(), NOW)
            monkeypatch.chdir(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["by-url.db", "plain.db"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_errors_of_the_file_system_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ExternalError, match="cannot make the folder"):
        Store.open(tmp_path / "file" / "state.db")
    with pytest.raises(ExternalError, match="cannot be opened"):
        Store.open(tmp_path)  # a folder
    (tmp_path / "text.db").write_text("not a database at all, but long enough to look like a file" * 50)
    with pytest.raises(ExternalError, match="the file is something else"):
        Store.open(tmp_path / "text.db")


def test_a_stuck_writer_is_an_external_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with Store.open(path, busy_timeout_s=0.05) as store:
        blocker = create_engine(f"sqlite:///{path}").connect()
        blocker.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(ExternalError, match="kept its write lock too long"):
            store.jobs.submit(make_spec(), NOW)
        assert store.jobs.find() == []  # readers are not blocked
        blocker.close()
        store.jobs.submit(make_spec(), NOW)


def test_a_full_disk_is_an_external_error_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with Store.open(path, pool_size=1) as store:
        kept, _ = store.jobs.submit(make_spec(), NOW)
        database = store._database
        # SQLite's own page limit raises the error of a full disk
        pages = database.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar())
        database.read(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}"))
        with pytest.raises(ExternalError, match="disk is full"):
            store.jobs.submit_many([make_spec(name="x" * 200) for _ in range(500)], NOW)
        database.read(lambda c: c.exec_driver_sql("PRAGMA max_page_count=1000000"))
        assert [job.job_id for job in store.jobs.find()] == [kept.job_id]


@pytest.mark.postgres
def test_an_unreachable_server_is_an_external_error() -> None:
    with pytest.raises(ExternalError, match="cannot be reached") as caught:
        Store.open("postgresql://lucid:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_a_missing_database_is_named(pg_server: PostgresServer, pg_url: str) -> None:
    pg_server.drop_database(pg_url)
    with pytest.raises(ExternalError, match="no such database; create it"):
        Store.open(pg_url)


def drop_connections(server: PostgresServer) -> None:
    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'lucid' AND pid <> pg_backend_pid()"
    )


@pytest.mark.postgres
def test_nobody_notices_that_a_server_has_dropped_idle_connections(
    pg_server: PostgresServer, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucid_pipelines.store.engine.ASKED_AFTER_IDLE_S", 0.0)
    with Store.open(pg_url) as store:
        job, _ = store.jobs.submit(make_spec(), NOW)
        drop_connections(pg_server)
        assert store.jobs.get(job.job_id) == job
        drop_connections(pg_server)
        store.jobs.submit(make_spec(name="another"), NOW)
        assert len(store.jobs.find()) == 2


@pytest.mark.postgres
def test_a_server_that_drops_a_busy_connection_is_used_again(
    pg_server: PostgresServer, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucid_pipelines.store.engine.ASKED_AFTER_IDLE_S", 3_600.0)
    with Store.open(pg_url) as store:
        job, _ = store.jobs.submit(make_spec(), NOW)
        drop_connections(pg_server)
        with pytest.raises(ExternalError):
            store.jobs.get(job.job_id)
        assert store.jobs.get(job.job_id) == job
        drop_connections(pg_server)
        with pytest.raises(ExternalError):
            store.jobs.submit(make_spec(name="another"), NOW)
        store.jobs.submit(make_spec(name="another"), NOW)
        assert len(store.jobs.find()) == 2


@pytest.mark.postgres
def test_tables_keep_out_of_the_way_of_other_programs(pg_empty_url_with_jobs: str) -> None:
    with Store.open(pg_empty_url_with_jobs) as store:
        store.jobs.submit(make_spec(), NOW)
        assert len(store.jobs.find()) == 1


@pytest.mark.postgres
def test_a_user_without_rights_on_the_database_works_in_a_schema_made_for_it(pg_server: PostgresServer) -> None:
    url = make_url(pg_server.create_database())
    if url.password is not None:
        pytest.skip("the server asks for passwords; this test makes a user without one")
    role = f"lucid_small_{url.database}"
    pg_server.execute(f"CREATE ROLE {role} LOGIN")
    small = url.set(username=role).render_as_string(hide_password=False)
    try:
        with pytest.raises(ExternalError, match="lacks the right; grant it"):
            Store.open(small)
        engine = create_engine(database_url(url.render_as_string(hide_password=False)))
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA lucid AUTHORIZATION {role}")
        engine.dispose()
        with Store.open(small) as store:
            store.jobs.submit(make_spec(), NOW)
    finally:
        pg_server.drop_database(url.render_as_string(hide_password=False))
        pg_server.execute(f"DROP ROLE {role}")


@pytest.fixture
def pg_empty_url_with_jobs(pg_server: PostgresServer) -> object:
    """A database in which another program has a table named jobs already."""
    url = pg_server.create_database()
    engine = create_engine(database_url(url))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE jobs (id int)")
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num text)")
    engine.dispose()
    yield url
    pg_server.drop_database(url)
