"""The flat public surface: everything named is there, and documented."""

import re
from pathlib import Path

import pytest

import setwise


def test_all_is_what_the_type_checker_sees():
    source = (Path(setwise.__file__)).read_text()
    assert sorted(re.findall(r"import \w+ as (\w+)$", source, re.MULTILINE)) == setwise.__all__


@pytest.mark.parametrize("name", setwise.__all__)
def test_every_export_is_documented(name):
    export = getattr(setwise, name)
    assert name == "Guarantee" or export.__doc__


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError):
        setwise.frobnicate  # noqa: B018
