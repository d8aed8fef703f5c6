"""Every module of the package with its first line, as `make map` prints it and the site shows it."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "setwise"


def module_lines(package: Path = PACKAGE) -> list[tuple[str, str]]:
    """Return (path below the package, first line of its docstring) for each Python module, sorted by path.

    Scripts of the web pages follow with their first comment. Scripts that are built, as the SQL editor is, have none
    in this form and are left out.
    """
    modules = [(path, _first_paragraph(path)) for path in sorted(package.rglob("*.py"))]
    scripts = [
        (path, first.removeprefix("//").strip())
        for path in sorted(package.rglob("*.js"))
        if (first := path.read_text(encoding="utf-8").partition("\n")[0]).startswith("//")
    ]
    return [(path.relative_to(package).as_posix(), line) for path, line in modules + scripts if line]


def modules_table(package: Path = PACKAGE) -> str:
    """Return `module_lines` as a Markdown table."""
    rows = [f"| `{path}` | {line.replace('|', chr(92) + '|')} |" for path, line in module_lines(package)]
    return "\n".join(["| module | what it has |", "|---|---|", *rows])


def _first_paragraph(module: Path) -> str:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


if __name__ == "__main__":
    sys.stdout.writelines(f"{path:<48} {line}\n" for path, line in module_lines())
