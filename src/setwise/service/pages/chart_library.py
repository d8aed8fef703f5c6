"""The chart library: plotly.js as the installed plotly package brings it, served from here."""

import gzip
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from setwise.errors import MissingExtra

_VERSION = re.compile(r"plotly\.js v([0-9.]+)")
_STYLE_ID = re.compile(r'document\.getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLibrary:
    """The script, compressed and plain.

    It adds styles of parts that we do not use unless an element with one of the `style_ids` is there already; a page
    that forbids inline styles puts such elements in.
    """

    version: str
    style_ids: tuple[str, ...]
    plain: bytes
    compressed: bytes


@cache
def chart_library() -> ChartLibrary:
    """Return the library, read once; raise `MissingExtra` when plotly is not installed."""
    try:
        plain = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise MissingExtra("the pages need plotly: pip install 'setwise[service]'") from None
    text = plain.decode("utf-8", "replace")
    version = _VERSION.search(text)
    return ChartLibrary(
        version="unknown" if version is None else version[1],
        style_ids=tuple(dict.fromkeys(_STYLE_ID.findall(text))),
        plain=plain,
        compressed=gzip.compress(plain, 6, mtime=0),
    )
