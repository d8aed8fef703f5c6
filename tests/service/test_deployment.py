"""The files to deploy the service, as far as they can be run without a container engine."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from setwise.errors import StoreFailed
from setwise.ledger.audit.heads import read_key
from setwise.ledger.ledger import Ledger
from setwise.service.settings import Settings
from tests.command_line import Done
from tests.servers.postgresql import PostgresqlServer
from tests.service.replica import Replica
from tests.service.team import ask, gather

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.fixture
def roles(postgresql_server: PostgresqlServer) -> Iterator[tuple[str, str]]:
    """The addresses of a database for its owner and for the application, with the roles of the deployment."""
    with postgresql_server.database() as url:
        with psycopg.connect(url, autocommit=True) as superuser:
            superuser.execute((DEPLOY / "database/10-roles.sql").read_text())
        yield url.replace("postgres@", "setwise_owner@"), url.replace("postgres@", "setwise_app@")
        with psycopg.connect(url, autocommit=True) as superuser:
            superuser.execute("DROP OWNED BY setwise_owner CASCADE; DROP OWNED BY setwise_app CASCADE")
            superuser.execute("DROP ROLE setwise_owner; DROP ROLE setwise_app")


def rewritten(connection: psycopg.Connection) -> list[str]:
    """Statements that would drop every trigger of the ledger, and replace every function behind one."""
    triggers = connection.execute(
        "SELECT tgname, tgrelid::regclass::text, tgfoid::regproc::text FROM pg_trigger WHERE NOT tgisinternal"
    ).fetchall()
    assert len(triggers) > 5
    replaced = "RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    drops = [f"DROP TRIGGER {name} ON {table}" for name, table, _ in triggers]
    return drops + [f"CREATE OR REPLACE FUNCTION {function}() {replaced}" for function in {row[2] for row in triggers}]


def test_the_application_cannot_shadow_tables_with_temporary_ones(
    roles: tuple[str, str], postgresql_server: PostgresqlServer
):
    """The role may make none. Were it allowed to, the guards would still read the tables of the ledger."""
    owner, application = roles
    with Ledger.open(owner) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x1"], delta=1e-6)
        ledger.account("ada").charge(["pure:0.1"], key="1", request="q")
    shadow = "CREATE TEMPORARY TABLE {0} (LIKE public.{0} INCLUDING DEFAULTS)"
    with psycopg.connect(application, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(shadow.format("ledger_accounts"))
        database = connection.info.dbname
    with psycopg.connect(owner.replace("setwise_owner@", "postgres@"), autocommit=True) as superuser:
        superuser.execute(f"GRANT TEMPORARY ON DATABASE {database} TO setwise_app")
    with psycopg.connect(application, autocommit=True) as connection:
        for table in ("ledger_accounts", "ledger_movements", "ledger_balances", "ledger_lines", "ledger_entries"):
            connection.execute(shadow.format(table))
        connection.execute("INSERT INTO ledger_accounts SELECT * FROM public.ledger_accounts")
        with pytest.raises(psycopg.errors.IntegrityError):  # the one registered use was drawn
            connection.execute(
                "INSERT INTO public.ledger_entries (holder, kind, key, period, at, uses, content, digest, moves) "
                """VALUES (1, 'charge', '2', '', 1, '["pure:0.1"]', 'q', 'x', '[[1,"","pure:0.1",1]]')"""
            )
    with Ledger.open(owner) as ledger:
        assert ledger.account("ada").entries() == 1
        assert not ledger.verify().faults


def test_a_replica_runs_as_a_role_that_cannot_touch_the_triggers(
    roles: tuple[str, str], start: Callable[..., Replica], tmp_path: Path, setwise: Callable[..., Done]
):
    owner, application = roles
    with pytest.raises(StoreFailed):
        Ledger.open(application)  # it may not make tables
    command = [sys.executable, "-m", "setwise.cli.main", "serve", "--migrate", "--ledger", owner]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert setwise("serve", "--migrate", "--ledger", owner).returncode == 0
    team = gather(start(ledger=application))
    assert ask(team.ada, "as-application").status_code == 200
    assert team.steward.get("/audit").json()["faults"] == []
    with psycopg.connect(application, autocommit=True) as connection:
        for statement in (
            "ALTER TABLE ledger_entries DISABLE TRIGGER ALL",
            "DROP TABLE ledger_entries CASCADE",
            "TRUNCATE ledger_entries CASCADE",
            "CREATE TABLE mine (x int)",
            "ALTER TABLE ledger_accounts DISABLE TRIGGER USER",
            "ALTER TABLE ledger_entries OWNER TO setwise_app",
            "SET session_replication_role = replica",
            "SET ROLE setwise_owner",
            "ALTER ROLE setwise_app SUPERUSER",
            "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            *rewritten(connection),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        for statement in ("DELETE FROM ledger_entries", "UPDATE ledger_entries SET at = at + 1"):
            with pytest.raises(psycopg.errors.RestrictViolation):
                connection.execute(statement)


def test_the_secrets_are_where_compose_looks_for_them(tmp_path: Path):
    shutil.copy(DEPLOY / "make-secrets.sh", tmp_path)
    subprocess.run(["sh", "make-secrets.sh"], check=True, cwd=tmp_path)
    addresses = [file for service in COMPOSE["services"].values() for file in service.get("env_file", ())]
    assert all((tmp_path / file).stat().st_mode & 0o777 == 0o600 for file in addresses)
    # The server in the container is neither root nor whoever made them: the folder keeps others of this machine out.
    passwords = [secret["file"] for secret in COMPOSE["secrets"].values()]
    assert all((tmp_path / file).stat().st_mode & 0o777 == 0o444 for file in passwords)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    password = (tmp_path / "secrets/setwise_app").read_text()
    assert len(password) == 48
    address = (tmp_path / "secrets/replica.env").read_text()
    assert address == f"SETWISE_LEDGER=postgresql://setwise_app:{password}@database/setwise\n"
    assert "owner" not in address


def test_replicas_sign_heads_and_verify_by_the_files_of_the_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The settings that compose and systemd give a replica are complete, and the key that they name is long enough."""
    shutil.copy(DEPLOY / "make-secrets.sh", tmp_path)
    subprocess.run(["sh", "make-secrets.sh"], check=True, cwd=tmp_path)
    assert len(read_key(tmp_path / "secrets/head_key")) == 64
    unit = (DEPLOY / "setwise.service").read_text()
    by_systemd = dict(re.findall(r"(SETWISE_(?:HEAD|VERIFY)_\w+)=(\S+)", unit))
    assert "LoadCredential=head.key:" in unit
    assert f"StateDirectory=setwise {Path(by_systemd['SETWISE_HEAD_FILE']).parts[1]}\n" in unit
    for name in ("first", "second"):
        replica = COMPOSE["services"][name]
        by_compose = {key: value for key, value in replica["environment"].items() if "HEAD" in key or "VERIFY" in key}
        assert by_compose.keys() == by_systemd.keys()
        assert replica["secrets"] == [Path(by_compose["SETWISE_HEAD_KEY"]).name]
        assert f"heads:{Path(by_compose['SETWISE_HEAD_FILE']).parent}" in replica["volumes"]
        for given in (by_compose, by_systemd):
            for key, value in given.items():
                monkeypatch.setenv(key, value)
            settings = Settings(ledger="x")
            assert settings.head_key is not None
            assert settings.head_file is not None
            assert settings.head_file.parent != settings.head_key.parent
            assert (settings.head_hours, settings.verify_hours) == (1.0, 24.0)


def test_no_role_is_left_without_its_password_when_a_secret_cannot_be_read(tmp_path: Path):
    (tmp_path / "psql").write_text("#!/bin/sh\ncat\n")
    (tmp_path / "psql").chmod(0o755)
    script = (DEPLOY / "database/20-passwords.sh").read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "script").write_text(script)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "POSTGRES_USER": "postgres", "POSTGRES_DB": "setwise"}

    def run() -> subprocess.CompletedProcess[str]:
        command = ["sh", str(tmp_path / "script")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    missing = run()
    assert missing.returncode != 0
    assert "ALTER" not in missing.stdout
    for role in ("setwise_owner", "setwise_app"):
        (tmp_path / role).write_text(f"secret-of-{role}")
    made = run()
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("PASSWORD 'secret-of-") == 2


def test_every_part_has_a_memory_limit_and_replicas_are_checked():
    """By compose itself: builders of OCI images leave out the health check of a Dockerfile."""
    assert all("mem_limit" in service for service in COMPOSE["services"].values())
    in_the_image = re.search(r"HEALTHCHECK .* CMD (.*)", (DEPLOY / "Dockerfile").read_text())
    assert in_the_image is not None
    for replica in ("first", "second"):
        assert COMPOSE["services"][replica]["healthcheck"]["test"] == ["CMD-SHELL", in_the_image[1]]
        assert COMPOSE["services"]["proxy"]["depends_on"][replica] == {"condition": "service_healthy"}


def test_compose_trusts_the_proxy_and_nobody_else():
    proxy = COMPOSE["services"]["proxy"]["networks"]["inside"]["ipv4_address"]
    assert COMPOSE["services"]["first"]["environment"]["SETWISE_TRUSTED_PROXY"] == proxy


@pytest.mark.parametrize(
    ("path", "enters"),
    [
        ("src/setwise/__init__.py", True),
        ("pyproject.toml", True),
        ("deploy/secrets/setwise_app", False),
        ("deploy/data/events.parquet", False),
        ("setwise.db", False),
        (".git/config", False),
    ],
)
def test_nothing_private_enters_an_image(path: str, enters: bool):
    rules = [line for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    included = True
    for rule in rules:  # the last rule that fits decides
        pattern = rule.removeprefix("!")
        parts = [path, *(str(parent) for parent in Path(path).parents)]
        if any(fnmatch(part, pattern) for part in parts if part != "."):
            included = rule.startswith("!")
    assert included is enters
    assert "COPY . " not in (DEPLOY / "Dockerfile").read_text()


def test_a_trusted_proxy_is_believed_about_https_and_others_are_not(start: Callable[..., Replica]):
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7", "Accept": "text/html"}
    behind, alone = start(trusted_proxy=("127.0.0.1",)), start(trusted_proxy=("192.0.2.1",))
    assert "; Secure" in httpx.get(f"{behind.url}/login", headers=forwarded).headers["set-cookie"]
    assert "; Secure" not in httpx.get(f"{alone.url}/login", headers=forwarded).headers["set-cookie"]
    for replica, counted in ((behind, "192.0.2.7"), (alone, "127.0.0.1")):
        httpx.get(f"{replica.url}/api/v1/me", headers=forwarded)
        assert list(replica.service.authenticator._address_rates._buckets) == [counted]


def test_the_programs_that_will_read_the_files_accept_them():
    """Those that this machine has; what is not checked is said."""
    done = subprocess.run(["sh", DEPLOY / "check.sh"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert set(checked) == {"compose.yaml", "Caddyfile", "setwise.service"}
    present = {"Caddyfile": "caddy", "setwise.service": "systemd-analyze"}
    for file, program in present.items():
        assert ("accepted" in checked[file]) is (shutil.which(program) is not None)
