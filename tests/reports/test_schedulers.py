"""The guide's pipelines, run by Airflow and dbt themselves, each in an environment of its own."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import duckdb
import pytest

from setwise import Ledger
from tests.reports.conftest import REPORT

pytestmark = pytest.mark.slow

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "reports.md").read_text(encoding="utf-8")
DAY = "2026-11-09"


def installed(folder, *packages):
    """Return the programs of a new environment with these packages."""
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", *packages], check=True, timeout=1200)
    return folder / "bin"


def called(*words, cwd, **environment):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        words, cwd=cwd, env=os.environ | {"PATH": path} | environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


def charges(folder, account):
    with Ledger.open(str(folder / "setwise.db")) as ledger:
        return ledger.account(account).status().charges


def test_airflow_runs_the_report_and_its_retry_costs_nothing(folder, tmp_path_factory):
    programs = installed(tmp_path_factory.mktemp("airflow"), "apache-airflow>=3.0")
    (dag,) = re.findall(r"```text\n(from airflow.*?)```", GUIDE, flags=re.DOTALL)
    home = tmp_path_factory.mktemp("home")
    (home / "dags").mkdir()
    (home / "dags" / "weekly.py").write_text(dag.replace("/srv/reports", str(folder)))
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    called(programs / "airflow", "db", "migrate", cwd=home, **settings)
    written = []
    for _ in range(2):
        called(programs / "airflow", "dags", "test", "weekly_usage", DAY, cwd=home, **settings)
        written.append((folder / "out" / "top_pages.csv").read_text())
    assert written[0] == written[1]
    assert charges(folder, f"weekly:{DAY}") == 3


def test_dbt_builds_on_what_a_report_wrote(folder, tmp_path_factory):
    # from dbt 2 on, its parser is fetched from elsewhere than the package index
    programs = installed(tmp_path_factory.mktemp("dbt"), "dbt-core<1.11", "dbt-duckdb<1.11")
    (folder / "weekly.toml").write_text(REPORT)
    called("setwise", "run", "weekly.toml", "--key", DAY, cwd=folder)
    project = folder / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text("name: usage\nversion: '1.0.0'\nprofile: usage\n")
    warehouse = folder / "out" / "warehouse.duckdb"
    (project / "profiles.yml").write_text(
        f"usage: {{target: here, outputs: {{here: {{type: duckdb, path: '{warehouse}'}}}}}}\n"
    )
    (project / "models" / "sources.yml").write_text(
        "sources:\n  - name: private\n    schema: main\n    tables: [{name: top_pages}]\n"
    )
    (select,) = re.findall(r"`(from \{\{ source.*?)`\.", GUIDE)
    (project / "models" / "shares.sql").write_text(f"select page, users {select}")
    called(programs / "dbt", "run", "--profiles-dir", ".", "--vars", f"{{run: '{DAY}'}}", cwd=project)
    with duckdb.connect(warehouse) as connection:
        assert len(connection.execute("SELECT page, users FROM shares").fetchall()) == 3
    assert charges(folder, f"weekly:{DAY}") == 3
