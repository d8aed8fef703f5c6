"""The pages on the service and the files to deploy it say what is there."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from setwise.cli.main import app
from setwise.errors import InvalidParameter
from setwise.service.auth.permissions import API, API_ROUTES
from setwise.service.problems import STATUS
from setwise.service.settings import Settings

ROOT = Path(__file__).parents[2]
SERVICE = (ROOT / "docs/service.md").read_text()
SECURITY = (ROOT / "docs/security.md").read_text()


def options() -> set[str]:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts} - {"--help"}


def test_every_route_that_the_page_names_is_there():
    named = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^`]*)`", SERVICE))
    assert named
    assert {(method, f"{API}{path}") for method, path in named} <= set(API_ROUTES)


def test_every_option_that_the_page_names_is_there():
    named = set(re.findall(r"`(--[a-z-]+)`", SERVICE))
    assert named
    assert named <= options()


def test_every_status_is_on_the_page():
    for status in set(STATUS.values()) - {500}:
        assert f"| {status} |" in SERVICE


@pytest.mark.parametrize("page", [SERVICE, SECURITY])
def test_every_test_and_file_that_a_page_names_is_there(page: str):
    named = re.findall(r"`((?:tests|deploy)/[\w/.]*)`", page) + re.findall(r"\]\(\.\./([\w/.]+)\)", page)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", ["setwise.service", "Dockerfile"])
def test_what_is_deployed_uses_options_that_exist(name: str):
    text = (ROOT / "deploy" / name).read_text()
    line = next(line for line in text.splitlines() if line.startswith(("ExecStart=", "ENTRYPOINT")))
    used = {word.strip('",[]') for word in shlex.split(line.replace(",", " "), posix=False)}
    assert {word for word in used if word.startswith("--")} <= options()
    assert "--secure-cookies" in used


def test_the_compose_file_is_yaml_with_two_replicas_and_a_proxy():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    assert set(found) == {"database", "migrate", "first", "second", "proxy"}
    assert found["first"] == found["second"]
    assert "ports" not in found["first"]
    assert "ports" not in found["database"]
    caddy = (ROOT / "deploy/Caddyfile").read_text()
    assert "first:8000 second:8000" in caddy
    assert f"health_uri {API}/health" in caddy


def test_every_setting_says_what_it_is():
    assert not [name for name, field in Settings.model_fields.items() if not field.description]


def test_every_option_of_serve_is_a_setting():
    asked = options() - {"--migrate", "--steward-token"}
    assert {option[2:].replace("-", "_") for option in asked} <= set(Settings.model_fields)


def test_settings_come_from_the_environment_and_a_given_one_wins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SETWISE_WORKERS", "7")
    monkeypatch.setenv("SETWISE_ENGINE", "duckdb spark")
    assert Settings().workers == 7
    assert Settings().engine == ("duckdb", "spark")
    assert Settings(workers=3).workers == 3


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("SETWISE_WORKERS", "none", "workers"),
        ("SETWISE_QUERY_SECONDS", "-1", "query_seconds"),
        ("SETWISE_ENGINE", "ftp", "engine"),
    ],
)
def test_a_wrong_variable_is_named_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, named: str
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidParameter, match=rf"^{named} \(or {variable}\): .+") as refused:
        Settings()
    assert "\n" not in str(refused.value)
