"""The public surface: one list of names in a stub, each of them there, documented and loaded when first used."""

import subprocess
import sys
from pathlib import Path

import pytest

import setwise
from setwise import mechanisms
from setwise._lazy import stub_exports

PACKAGES = (setwise, mechanisms)
EXPORTS = [(package, name) for package in PACKAGES for name in package.__all__]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_the_stub_has_one_line_for_each_name(package):
    lines = Path(package.__file__).with_suffix(".pyi").read_text().splitlines()
    listed = [line for line in lines if line and not line.startswith(("#", "__"))]
    assert sorted(f"from {home} import {name} as {name}" for name, home in stub_exports(package.__file__).items()) == (
        sorted(listed)
    )
    assert dir(package) == package.__all__


@pytest.mark.parametrize(("package", "name"), EXPORTS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_export_is_there_and_documented(package, name):
    assert getattr(package, name).__doc__


def test_about_thirty_names_are_flat():
    assert len(setwise.__all__) <= 37


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_unknown_names_are_refused(package):
    with pytest.raises(AttributeError, match="frobnicate"):
        package.frobnicate  # noqa: B018


def test_errors_are_at_hand():
    with pytest.raises(setwise.InvalidParameter):
        setwise.PureDP(epsilon=-1)
    assert issubclass(setwise.errors.InvalidParameter, setwise.BadRequest)


def test_importing_loads_nothing_of_the_package():
    code = "import sys, setwise; print(*sorted(name for name in sys.modules if name.startswith('setwise')))"
    assert run("-c", code) == "setwise setwise._lazy"


def test_the_package_is_a_command():
    assert run("-m", "setwise", "--version") == f"setwise {setwise.__version__}"


def run(*words: str) -> str:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_a_renamed_export_names_its_successor():
    with pytest.raises(AttributeError, match="CertifiedBound"):
        setwise.Answer  # noqa: B018
