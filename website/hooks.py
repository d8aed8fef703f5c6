"""What happens to a page on its way to the site: generated parts are put in, outside links taken out, formulas set.

A page that has a generated part says where: `<!-- site: commands -->`. On a plain checkout the page is still readable;
it only lacks that part.
"""

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from bibliography import bibliography
from commands import command_reference
from exports import export_reference
from generated import claims_table, mutants_table, promises_table, sql_table, statements_table
from included import included
from links import links_of_the_site
from mathematics import with_formulas
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from modules import modules_table
from navigation import navigation
from routes import route_reference
from settings import settings_table
from theorems import theorems

ROOT = Path(__file__).parents[1]
_MARKER = re.compile(r"^<!-- site: (?P<what>\w+)(?: (?P<of>\S+))? -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation from the pages there are."""
    docs = Path(config.docs_dir)
    config.nav = navigation(str(PurePosixPath(path.relative_to(docs))) for path in docs.rglob("*.md"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the style sheet, which is no document and so does not live among them."""
    style = (ROOT / "website" / "setwise.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "assets/setwise.css", content=style))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:  # noqa: ANN401 - the hook's port
    """Put the generated parts in, and keep links inside the site."""
    filled = _MARKER.sub(lambda match: _generated(match["what"], match["of"] or ""), markdown)
    return links_of_the_site(filled, page.file.src_uri, ROOT)


def on_page_content(html: str, page: Page, **_: Any) -> str:  # noqa: ANN401 - the hook's port
    """Set the formulas; a page without sections leaves no room for a table of them."""
    if not any(title.children for title in page.toc):
        page.meta["hide"] = ["toc"]
    return with_formulas(html)


def _generated(what: str, of: str) -> str:
    parts: dict[str, Callable[[], str]] = {
        "bibliography": lambda: bibliography(ROOT / "docs" / "references.bib"),
        "claims": lambda: claims_table(ROOT / "docs" / "figures" / "paper" / "claims.csv"),
        "commands": command_reference,
        "exports": lambda: export_reference(of),
        "include": lambda: included(ROOT / of),
        "modules": modules_table,
        "mutants": lambda: mutants_table(ROOT / "tests" / "mutants"),
        "promises": lambda: promises_table(ROOT / "tests" / of / "promises.csv"),
        "routes": route_reference,
        "settings": settings_table,
        "sql": lambda: sql_table(ROOT / "docs" / "sql-statements.csv", of),
        "statements": lambda: statements_table(ROOT / "docs" / "paper" / "statements.csv", of),
        "theorems": lambda: theorems(ROOT / "docs"),
    }
    if what not in parts:
        raise ValueError(f"no part of the site is called {what!r}")
    return parts[what]()
