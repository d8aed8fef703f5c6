"""What happens to pages on their way to the site."""

import re
import subprocess
import sys

import pytest
from tests.docs.pages import DOCS, ROOT

sys.path.insert(0, str(ROOT / "website"))

from bibliography import bibliography
from doctests import fenced
from generated import claims_table, mutants_table, promises_table, statements_table
from included import included
from links import links_of_the_site
from mathematics import with_formulas
from modules import PACKAGE, module_lines, modules_table
from navigation import SECTIONS, navigation
from routes import access_table
from settings import serve_options, settings_table
from theorems import SOURCES, statements, theorems


def test_a_page_nobody_listed_is_not_lost():
    pages = ["index.md", "surprise.md", "guides/late.md", "ledger.md"]
    assert navigation(pages) == [
        {"Start": ["index.md"]},
        {"The system": ["ledger.md", "guides/late.md", "surprise.md"]},
    ]


def test_no_page_is_listed_twice():
    listed = [page for section in SECTIONS.values() for page in section]
    assert len(listed) == len(set(listed))


def test_every_page_listed_is_there():
    assert not [page for section in SECTIONS.values() for page in section if not (ROOT / "docs" / page).exists()]


def test_formulas_become_mathml():
    inline = with_formulas('a <span class="arithmatex">\\(x &lt; y\\)</span> b')
    assert inline.startswith("a <math ")
    assert "<mi>x</mi><mo>&lt;</mo><mi>y</mi>" in inline
    block = with_formulas('<div class="arithmatex">\\[\\sup_S f(-x) \\tag{7}\\]</div>')
    assert "<munder><mo" in block
    assert '<mo form="prefix">−</mo>' in block
    assert '<span class="equation-name">(7)</span>' in block
    assert "tag" not in block
    without = with_formulas('<span class="arithmatex">\\(E \\setminus b\\)</span>')
    assert "<mi>E</mi><mo>\u2216</mo><mi>b</mi>" in without


def test_doctests_are_fenced():
    assert fenced("Add.\n\n>>> 1 + 1\n2\n\nMore.") == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
    assert fenced("Nothing to try.") == "Nothing to try."


def test_links_out_of_the_docs_become_words_and_must_exist():
    page = "[here](ledger.md#a) [there](../benchmarks/README.md) [all](paper/) [web](https://example.org)"
    kept = "[here](ledger.md#a) there [all](paper/README.md) [web](https://example.org)"
    assert links_of_the_site(page, "index.md", ROOT) == kept
    with pytest.raises(FileNotFoundError, match="nowhere"):
        links_of_the_site("[x](../nowhere.md)", "index.md", ROOT)


def test_a_page_from_the_root_links_as_from_the_docs():
    assert "](architecture.md)" in included(ROOT / "CONTRIBUTING.md")
    assert "](comparison.md)" in included(ROOT / "benchmarks" / "README.md")


def test_long_tables_are_built_from_what_they_list():
    claims = (ROOT / "docs" / "figures" / "paper" / "claims.csv").read_text(encoding="utf-8")
    assert claims_table(ROOT / "docs" / "figures" / "paper" / "claims.csv").count("| pass |") == claims.count(",pass")
    table = mutants_table(ROOT / "tests" / "mutants")
    assert len(table.splitlines()) > 150
    assert "| Laplace scale 5% low | `mechanisms/noise/discrete.py` |" in table
    statements = ROOT / "docs" / "paper" / "statements.csv"
    parts = [statements_table(statements, part) for part in ("paper", "beyond")]
    assert sum(len(part.splitlines()) - 2 for part in parts) == len(statements.read_text().splitlines()) - 1
    assert "| `lem:bad_order` |" in parts[0]
    assert "| a charge is all or nothing | `tests/" in promises_table(ROOT / "tests" / "ledger" / "promises.csv")
    assert "| rows over REST have one shape | `tests/" in promises_table(ROOT / "tests" / "analytics" / "promises.csv")


def test_settings_and_routes_are_listed_from_the_service():
    table = settings_table()
    assert all(f"| `{option}` |" in table for option in serve_options() - {"--migrate", "--steward-token"})
    assert "| `--port` | `SETWISE_PORT` | `8000` |" in table
    assert "| `GET /api/v1/health` | anyone |" in access_table()
    assert "| `POST /api/v1/datasets` | steward |" in access_table()


def test_every_module_is_listed_with_its_first_line():
    lines = dict(module_lines())
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    assert modules == {path for path in lines if path.endswith(".py")}, "modules without a docstring"
    assert lines["ledger/records.py"].startswith("Entries of an account")
    assert lines["service/pages/static/question.js"].startswith("The form of a question")
    assert "service/pages/static/sql_editor.js" not in lines, "it is built, and has no first line"
    assert modules_table().count("\n") == len(lines) + 1
    run = subprocess.run([sys.executable, ROOT / "website" / "modules.py"], capture_output=True, text=True, check=True)
    assert len(run.stdout.splitlines()) == len(lines)


def test_the_bibliography_names_every_key():
    source = ROOT / "docs" / "references.bib"
    shown = bibliography(source)
    assert shown.count('<a id="') == source.read_text().count("\n@")
    assert "**CanonneKaSt20** · Clément L. Canonne, Gautam Kamath and Thomas Steinke." in shown
    assert "{" not in shown


def test_the_note_of_theorems_has_every_statement_whole_and_no_proof():
    note = theorems(DOCS)
    for name in SOURCES:
        numbered = re.findall(r"\*\*((?:Theorem|Lemma|Proposition) \d+)", (DOCS / name).read_text(encoding="utf-8"))
        assert numbered
        assert all(f"**{each}" in note for each in numbered)
    assert "*Proof" not in note
    assert all(text.rstrip().endswith((".", ".*", "$$")) for text in note.split("\n\n**")[1:] if "##" not in text)
    assert statements("**Lemma 1.** If\n\n$$x$$\n\nthen it holds.\n\n*Proof.* By magic. ∎") == [
        "**Lemma 1.** If\n\n$$x$$\n\nthen it holds."
    ]
