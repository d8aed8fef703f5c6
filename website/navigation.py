"""The order of the pages. A page that is not named here is not lost: it is appended to the section `The system`."""

from collections.abc import Iterable, Sequence

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "tutorial.md"),
    "How to": (
        "guides/first-tasks.md",
        "guides/a-years-budget.md",
        "guides/live-dashboard.md",
        "guides/team-service.md",
        "guides/dashboards.md",
        "guides/reports.md",
        "guides/agents.md",
        "guides/spark.md",
        "guides/lake-table.md",
        "guides/add-an-engine.md",
    ),
    "The mathematics": (
        "optimal-composition.md",
        "closed-forms.md",
        "numerics.md",
        "truncated-gaussian-on-the-lattice.md",
        "running-totals.md",
        "bibliography.md",
    ),
    "The paper": (
        "paper/README.md",
        "paper/tour.md",
        "paper/statements.md",
        "paper/theorems.md",
        "paper/figures.md",
        "paper/claims.md",
        "paper/open-questions.md",
    ),
    "The system": (
        "architecture.md",
        "mechanisms.md",
        "intervals.md",
        "discovery.md",
        "statistics.md",
        "analytics.md",
        "utility.md",
        "engines.md",
        "adapters.md",
        "reading.md",
        "ledger.md",
        "service.md",
        "sign-on.md",
        "backups.md",
        "scale.md",
        "pages.md",
        "security.md",
    ),
    "Reference": (
        "reference/commands.md",
        "reference/routes.md",
        "reference/settings.md",
        "reference/accounting.md",
        "reference/mechanisms.md",
        "reference/ledger.md",
        "reference/analytics.md",
        "reference/client.md",
        "reference/errors.md",
    ),
    "Evidence": ("comparison.md", "benchmarks.md", "mutants.md"),
    "Project": ("decisions.md", "stability.md", "upgrade.md", "changelog.md", "contributing.md"),
}
_ELSEWHERE = "The system"


def navigation(pages: Iterable[str]) -> list[dict[str, list[str]]]:
    """Return the navigation over the pages there are, in the order above; a page not named there is appended."""
    found = sorted(pages)
    named = {page for section in SECTIONS.values() for page in section}
    extra = [page for page in found if page not in named]
    sections: dict[str, Sequence[str]] = {
        title: [page for page in listed if page in found] for title, listed in SECTIONS.items()
    }
    sections[_ELSEWHERE] = [*sections[_ELSEWHERE], *extra]
    return [{title: list(listed)} for title, listed in sections.items() if listed]
