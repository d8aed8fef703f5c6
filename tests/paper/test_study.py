"""`setwise paper`: what it writes, prints and exits with; and every claim, from the committed numbers."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from setwise.cli.main import app
from setwise.errors import InvalidParameter, MissingExtra
from setwise.paper import study
from setwise.paper.figure import Claim, Table

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures" / "paper"


@pytest.fixture(scope="module")
def claims():
    found = []
    for figure in study.FIGURES:
        found += figure.claims(Table.read((FOLDER / f"{figure.file}.csv").read_text(encoding="utf-8")))
    return [*found, *(claim for texts in study._TEXTS for claim in texts())]


def test_every_claim_holds(claims):
    assert len(claims) >= 60
    assert not [claim for claim in claims if not claim.passed]


def test_the_committed_claims_are_these(claims):
    kept = list(csv.DictReader((FOLDER / "claims.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["label"], row["says"], row["verdict"]) for row in kept] == [
        (claim.label, claim.says, claim.verdict) for claim in claims
    ]
    for row, claim in zip(kept, claims, strict=True):
        assert float(row["paper"]) == pytest.approx(claim.paper, rel=1e-6, abs=1e-6)
        assert float(row["ours"]) == pytest.approx(claim.ours, rel=1e-6, abs=1e-6)


def test_every_figure_checks_something(claims):
    labels = {claim.label for claim in claims}
    assert {figure.label for figure in study.FIGURES if figure.label.startswith("fig:")} - {
        "fig:opt_nonadaptive",  # its claims are those of the theorems it draws
        "fig:gap",
    } <= labels


def test_one_object_for_programs(setwise, tmp_path):
    done = setwise(
        "paper", "--figure", "worst-answer", "--figure", "fig:NoiseCompare", "--out", str(tmp_path), "--json"
    )
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["passed"] is True
    assert set(found["claims"][0]) == {"label", "says", "paper", "ours", "check", "verdict"}
    names = {"worst-answer", "macbeth-noise"}
    expected = {f"{name}.{kind}" for name in names for kind in ("csv", "svg", "png")} | {"claims.csv", "claims.md"}
    assert {Path(file).name for file in found["files"]} == expected == {path.name for path in tmp_path.iterdir()}
    for name in names:
        assert (tmp_path / f"{name}.csv").read_text() == (FOLDER / f"{name}.csv").read_text()


def test_a_table_for_people(tmp_path, claims, monkeypatch):
    monkeypatch.setattr(study, "_TEXTS", (lambda: tuple(claims),))
    done = CliRunner().invoke(app, ["paper", "--figure", "text", "--out", str(tmp_path)])
    assert done.exit_code == 0
    assert "pass  lem:deriv_zero" in done.stdout
    assert "claims hold; 2 files in" in done.stdout
    assert "fail" not in {line.split(" ")[0] for line in done.stdout.splitlines()}


def test_a_claim_that_fails_gives_exit_status_one(tmp_path, monkeypatch):
    wrong = Claim(label="lem:GM", says="sigma = 13.1", paper=13.1, ours=14.0, tolerance=0.05)
    monkeypatch.setattr(study, "_TEXTS", (lambda: (wrong,),))
    for extra in ([], ["--json"]):
        done = CliRunner().invoke(app, ["paper", "--figure", "text", "--out", str(tmp_path), *extra])
        assert done.exit_code == 1
        assert "fail" in done.stdout


def test_an_unknown_figure_is_named_with_those_there_are(setwise, tmp_path):
    done = setwise("paper", "--figure", "fig:none", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "'fig:none'" in done.stderr
    assert "fig:gap" in done.stderr
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidParameter):
        study.select_figures(["gap", "nothing"])


def test_a_folder_that_cannot_be_made_is_an_error_of_the_store(setwise, tmp_path):
    (tmp_path / "file").write_text("")
    done = setwise("paper", "--figure", "text", "--out", str(tmp_path / "file" / "below"))
    assert done.returncode == 4
    assert done.stderr.startswith("setwise: ")
    assert "Traceback" not in done.stderr


def test_without_matplotlib_one_sentence_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None; "
        f"sys.argv = ['setwise', 'paper', '--figure', 'gap', '--out', {str(tmp_path)!r}]; "
        "from setwise.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == MissingExtra.exit_code
    assert done.stderr == "setwise: the pictures need matplotlib: pip install 'setwise[paper]'\n"


def test_help_does_not_load_matplotlib():
    program = (
        "import sys; from setwise.cli.main import app; from typer.testing import CliRunner; "
        "CliRunner().invoke(app, ['paper', '--help']); "
        "sys.exit('matplotlib' in sys.modules or 'setwise.paper.study' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_the_page_counts_the_claims_and_has_every_picture(claims):
    page = (ROOT / "docs" / "paper" / "figures.md").read_text(encoding="utf-8")
    assert f"All {len(claims)} claims" in page
    for figure in study.FIGURES:
        assert f"### {figure.label}\n" in page
        assert f"(../figures/paper/{figure.file}.svg)" in page
