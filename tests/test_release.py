"""A release: versions agree, each extra is tried, and its list of dependencies names what is inside the bundle too."""

import importlib.util
import json
import re
import zipfile
from pathlib import Path

import pytest

import setwise

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "src" / "setwise" / "service" / "pages" / "static"


@pytest.fixture(scope="module")
def release():
    """The script that builds a release."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "deploy" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wheel(tmp_path, release):
    """A wheel of the files that a release must have, without the code."""
    path = tmp_path / "setwise-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("service/pages/static/page.css", "service/pages/templates/ask.html", "documents/ledger.md"):
            archive.writestr(f"setwise/{name}", "")
        archive.writestr("setwise/py.typed", "")
        archive.writestr("setwise/service/pages/static/sql_editor.js", "")
        archive.writestr(f"setwise/{release.LICENCES}", (STATIC / "sql_editor.LICENSES.txt").read_text())
        archive.writestr("setwise-9.9.9.dist-info/licenses/LICENSE", "")
    return path


def installed_packages():
    """A list of the packages of an environment as cyclonedx-py writes it for a wheel that pip took from a folder."""
    subject = {
        "bom-ref": "setwise==9.9.9",
        "externalReferences": [
            {"type": "distribution", "url": "file:///somebody/dist/setwise-9.9.9-py3-none-any.whl"},
            {"type": "other", "url": "https://arxiv.org/abs/2004.07223"},
        ],
        "licenses": [{"expression": "Apache-2.0 AND MIT"}],
        "name": "setwise",
        "type": "library",
        "version": "9.9.9",
    }
    numpy = {"bom-ref": "numpy==2.0.0", "name": "numpy", "type": "library", "version": "2.0.0"}
    return {
        "components": [numpy, subject],
        "dependencies": [{"ref": "numpy==2.0.0"}, {"ref": "setwise==9.9.9", "dependsOn": ["numpy==2.0.0"]}],
        "metadata": {},
    }


def test_the_version_is_the_same_everywhere():
    version = setwise.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    chart = (ROOT / "deploy" / "helm" / "setwise" / "Chart.yaml").read_text()
    assert f"\nversion: {version}\n" in chart
    assert f'\nappVersion: "{version}"\n' in chart
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0][0] == version
    assert headings[0][1], "the newest release has a date"


def test_there_is_a_job_for_every_extra_that_people_install(release):
    assert set(release.extras()) - {"dev", "docs", "bench"} == set(release.JOBS) - {""}


def test_a_wheel_with_everything_passes_and_one_without_a_licence_or_with_tests_does_not(release, wheel):
    release.look_into(wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/test_it.py", "")
    with pytest.raises(SystemExit, match=r"tests/test_it\.py"):
        release.look_into(wheel)
    bare = wheel.with_name("bare.whl")
    with zipfile.ZipFile(bare, "w") as archive:
        archive.writestr("setwise/py.typed", "")
    with pytest.raises(SystemExit, match=r"sql_editor\.LICENSES\.txt"):
        release.look_into(bare)


def test_the_packages_inside_the_editor_are_those_of_its_lock_file(release, wheel):
    lock = json.loads((ROOT / "editor" / "package-lock.json").read_text())["packages"]
    locked = {
        (place.removeprefix("node_modules/"), package["version"], package["license"])
        for place, package in lock.items()
        if place and not package.get("dev")
    }
    listed = release.bundled_packages(wheel)
    assert {(each["name"], each["version"], each["licenses"][0]["license"]["id"]) for each in listed} == locked
    assert "pkg:npm/%40codemirror/view@" in " ".join(each["purl"] for each in listed)


def test_the_list_of_dependencies_has_the_bundle_and_no_path_of_a_machine(release, wheel):
    document = installed_packages()
    release.complete(document, wheel)
    assert "file:" not in json.dumps(document)
    assert "somebody" not in json.dumps(document)
    assert document["metadata"]["component"]["name"] == "setwise"
    assert document["metadata"]["component"]["externalReferences"][0]["url"] == wheel.name
    names = [each["name"] for each in document["components"]]
    assert "setwise" not in names
    assert {"numpy", "@codemirror/view", "crelt"} <= set(names)
    (subject,) = (each for each in document["dependencies"] if each["ref"] == "setwise==9.9.9")
    references = {each["bom-ref"] for each in document["components"]}
    assert set(subject["dependsOn"]) == references
    assert {each["ref"] for each in document["dependencies"]} == {*references, "setwise==9.9.9"}
