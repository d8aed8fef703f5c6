"""A report as one HTML page that needs nothing else: no script, no file, no network."""

import base64
import tempfile
from collections.abc import Mapping
from html import escape
from pathlib import Path

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.html import answer_html
from setwise.errors import MissingExtra
from setwise.reports.outputs import Answered
from setwise.reports.pricing import Priced
from setwise.reports.report import Report

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em}"
    "h1,h2{line-height:1.2}section{margin:2.5em 0;overflow-x:auto}img{max-width:100%;background:#fff}"
    "header p{max-width:45em}"
)


def report_page(report: Report, key: str, priced: Priced, answers: Mapping[str, Answered]) -> str:
    """Return the page: what is promised, then each answer as a picture and a table."""
    sections = "".join(_section(name, answer) for name, answer in answers.items())
    title = escape(report.title)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><header><h1>{title}</h1>"
        f"<p>{escape(_promise(report, priced))}</p><p>Run {escape(key)}.</p></header>{sections}</body></html>\n"
    )


def _promise(report: Report, priced: Priced) -> str:
    upper = priced.promise.upper
    return (
        "Every number here has noise added, so that the page reads almost the same whether or not any one person's "
        f"rows are in the table. Formally: all answers together are ({upper:.4g}, {report.delta:g})-differentially "
        f"private, in whatever order they were asked ({priced.promise.method}, {priced.promise.statement})."
    )


def _section(name: str, answer: Answered) -> str:
    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    return f"<section><h2>{escape(name)}</h2>{_picture(name, private)}{answer_html(private)}</section>"


def _picture(name: str, answer: PrivateAnswer) -> str:
    """Return a picture of groups with intervals, where there is something to draw and something to draw it with."""
    if len(answer) < 2 or (not answer.statistics and all(each.count is None for each in answer.items)):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        try:
            answer.plot(str(path))
        except MissingExtra:
            return ""
        drawn = base64.b64encode(path.read_bytes()).decode()
    return f"<img alt='{escape(name, quote=True)}: bars with intervals' src='data:image/svg+xml;base64,{drawn}'>"
