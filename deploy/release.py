"""Build a release and try it: wheel, sdist and list of dependencies in dist/, each extra in an empty environment.

    python deploy/release.py                    # everything
    python deploy/release.py --extra service    # the wheel, the sdist and one extra

Every environment is made from nothing, installs the built wheel with one extra (or none) and the pinned dependencies of
constraints.txt, and runs a small job that needs the extra. The list of dependencies is a CycloneDX document with the
version and licence of each package: those that every extra installs, and those inside the bundle of the SQL editor.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"

ASK = """
import csv, setwise
with open("visits.csv", "w", newline="") as file:
    csv.writer(file).writerows([("who", "page"), *((user, "home") for user in range(3000))])
with setwise.open("visits.csv", user="who") as session:
    answer = session.sql("SELECT page, COUNT(DISTINCT who) AS users FROM visits GROUP BY page", epsilon=1, delta=1e-6)
assert answer.rows[0]["page"] == "home"
"""

PAPER = """
import subprocess, sys
words = [sys.executable, "-m", "setwise", "paper", "--figure", "order-gap"]
done = subprocess.run(words, capture_output=True, text=True)
"""

CONNECT = """
import setwise
try:
    setwise.connect("http://127.0.0.1:9", token="setwise_x", patience=0).datasets()
except setwise.errors.SetwiseError as error:
    print(error)  # nobody listens there; the client says so in a sentence
"""

STORE = """
import os, setwise
os.environ |= dict(AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x")
try:
    setwise.open("s3://bucket/visits.parquet", user="who")
except setwise.errors.SetwiseError as error:
    print(error)  # nobody listens there; the client of the store says so
else:
    raise AssertionError
"""

JOBS = {
    "": f"{ASK}\nassert setwise.compose(['pure:0.1x25']).epsilon(1e-6).upper < 2.0791\n{PAPER}\n"
    "assert done.returncode == 2 and 'setwise[paper]' in done.stderr, done  # it says which extra it needs",
    "agents": "import setwise.agents, mcp",
    "chdb": "import chdb\nassert 'setwise' in str(chdb.query(\"SELECT 'setwise'\"))",
    "client": CONNECT,
    "clickhouse": "import clickhouse_connect",
    "delta": "import deltalake",
    "frames": f"{ASK}\nassert len(answer.answer.to_pandas()) == len(answer.answer.to_polars()) == 1",
    "iceberg": "import pyiceberg.table",
    "paper": f"{PAPER}\nassert done.returncode == 0 and '5 of 5 claims hold' in done.stdout, done",
    "plots": f"{ASK}\nanswer.answer.plot('users.png')",
    "postgres": "import psycopg",
    "s3": STORE,
    "service": "from setwise.service.app import create_app\nfrom setwise.service.settings import Settings\n"
    "create_app(Settings(ledger='ledger.db'))",
    "spark": "import pyspark",
}
"""What is run with each extra; "" is the package without any."""

LICENCES = "service/pages/static/sql_editor.LICENSES.txt"
"""The licences of the packages inside the bundle of the SQL editor; its place in the package."""

VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(None if fault is None else f"the list of dependencies is not a CycloneDX 1.6 document: {fault}")
"""


def main() -> None:
    """Build, look into the wheel, try every extra, and write the list of dependencies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extra", action="append", help="try only this extra; may be repeated")
    chosen = parser.parse_args().extra
    people_install = [name for name in extras() if name not in {"dev", "docs", "bench"}]
    missing = set(people_install) - set(JOBS)
    if missing:
        sys.exit(f"there is no job for the extras {sorted(missing)}: add one to JOBS")
    wheel, sdist = build()
    look_into(wheel)
    for name in ["", *people_install] if chosen is None else chosen:
        try_installed(wheel, name)
    try_installed(sdist, "")
    if chosen is None:
        write_dependencies(wheel, people_install)
    print(f"tried: {wheel.name}, {sdist.name}")


def extras() -> list[str]:
    """Return the names of the extras that pyproject.toml declares."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def build() -> tuple[Path, Path]:
    """Build the wheel and the sdist into dist/, which is emptied first, and return their paths."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder))
        pip(python, "install", "build")
        run(python, "-m", "build", "--outdir", DIST, ROOT)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def look_into(wheel: Path) -> None:
    """Stop if the wheel lacks a licence, pages, documents or types, or holds anything but the package."""
    names = zipfile.ZipFile(wheel).namelist()
    needed = ("service/pages/static/page.css", "service/pages/templates/ask.html", "documents/ledger.md", "py.typed")
    bundled = ("service/pages/static/sql_editor.js", LICENCES)
    lacking = [name for name in (*needed, *bundled) if f"setwise/{name}" not in names]
    foreign = [name for name in names if not name.startswith(("setwise/", "setwise-"))]
    if lacking or foreign or not any(name.endswith("licenses/LICENSE") for name in names):
        sys.exit(f"the wheel lacks {lacking} or its licence, or holds {foreign}")


def try_installed(built: Path, extra: str) -> None:
    """Install `built` with `extra` into an empty environment and run the job of that extra there."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder) / "environment")
        install(python, f"{built}[{extra}]" if extra else str(built))
        pip(python, "check")
        run(python.parent / "setwise", "--version", cwd=folder)
        run(python, "-c", JOBS[extra], cwd=folder)
    print(f"tried: {built.name} with {extra or 'no extra'}", flush=True)


def write_dependencies(wheel: Path, people_install: list[str]) -> None:
    """Write dist/NAME.cdx.json: every package that the wheel with all its extras installs, with version and licence."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder) / "environment")
        install(python, f"{wheel}[{','.join(people_install)}]")
        tool = environment(Path(folder) / "tool")
        pip(tool, "install", "cyclonedx-bom")
        target = DIST / f"{wheel.name.removesuffix('.whl')}.cdx.json"
        options = ("--output-reproducible", "--spec-version", "1.6", "-o", target)
        run(tool, "-m", "cyclonedx_py", "environment", *options, python)
        document = json.loads(target.read_text())
        complete(document, wheel)
        target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
        run(tool, "-c", VALIDATE, target)
    components = document["components"]
    unlicensed = sorted(each["name"] for each in components if not each.get("licenses"))
    print(f"listed: {len(components)} packages; without a stated licence: {', '.join(unlicensed) or 'none'}")


def complete(document: dict[str, Any], wheel: Path) -> None:
    """Make `document`, which lists the packages of an environment, a list of what the release of `wheel` depends on.

    Setwise becomes the subject of the document instead of one of its packages, and is named by the file name of its
    wheel instead of by a path of this machine. The packages inside the bundle of the SQL editor are added.
    """
    (subject,) = (each for each in document["components"] if each["name"] == "setwise")
    for reference in subject["externalReferences"]:
        if reference["url"].startswith("file:"):
            reference["url"] = wheel.name
    bundled = bundled_packages(wheel)
    document["components"] = [*(each for each in document["components"] if each is not subject), *bundled]
    document["metadata"]["component"] = subject
    for dependency in document["dependencies"]:
        if dependency["ref"] == subject["bom-ref"]:
            dependency["dependsOn"] += [each["bom-ref"] for each in bundled]
    document["dependencies"] += [{"ref": each["bom-ref"]} for each in bundled]


def bundled_packages(wheel: Path) -> list[dict[str, Any]]:
    """Return the packages inside the bundle of the SQL editor, as components of a CycloneDX document.

    They are read from the file of licences in the wheel, in which each package has a line such as `crelt 1.0.7 (MIT)`.
    """
    with zipfile.ZipFile(wheel) as archive:
        texts = archive.read(f"setwise/{LICENCES}").decode()
    packages = []
    for name, version, licence in re.findall(r"^(\S+) (\d\S*) \((\S+)\)$", texts, re.MULTILINE):
        address = f"pkg:npm/{quote(name)}@{version}"
        licences = [{"license": {"acknowledgement": "declared", "id": licence}}]
        names = {"type": "library", "name": name, "version": version}
        packages.append({**names, "bom-ref": address, "purl": address, "licenses": licences})
    return packages


def environment(folder: Path) -> Path:
    """Make an empty virtual environment in `folder`, without even pip, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, requirement: str) -> None:
    """Install a requirement with the pinned versions of constraints.txt into the environment of `python`."""
    pip(python, "install", "--constraint", ROOT / "constraints.txt", requirement)


def pip(python: Path, command: str, *words: object) -> None:
    """Run a command of pip on the environment of `python`, and stop if it fails.

    The pip of the interpreter that runs this script is used, so that none has to be installed into each environment,
    and modules are compiled only when they are imported: both took longer than the installation itself.
    """
    options = ["--quiet", "--no-compile"] if command == "install" else []
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, command, *options, *words)


def run(*words: object, cwd: str | None = None) -> None:
    """Run a command, and stop if it fails."""
    subprocess.run([str(word) for word in words], check=True, cwd=cwd)


if __name__ == "__main__":
    main()
