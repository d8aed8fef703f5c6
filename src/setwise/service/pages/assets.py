"""Our own styles and scripts, and the chart library, under addresses that change with their contents."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from setwise.errors import MissingExtra
from setwise.service.route import GuardedRoute, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return every file: its contents and type by its name."""
    folder = files("setwise.service.pages").joinpath("static")
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    return {
        each.name: (each.read_bytes(), kind)
        for each in found
        if (kind := _TYPES.get("." + each.name.rpartition(".")[2])) is not None
    }


@cache
def static_version() -> str:
    """Return a digest of all files: one for all, since scripts import each other by relative names."""
    digest = hashlib.sha256()
    for name, (contents, _) in static_files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(contents).digest())
    return digest.hexdigest()[:16]


_VERSION = re.compile(rb"plotly\.js v([0-9.]+)")
_STYLE_ID = re.compile(rb'document\.getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLibrary:
    """The script and its version.

    It adds styles of parts that we do not use unless an element with one of the `style_ids` is there already; a page
    that forbids inline styles puts such elements in.
    """

    version: str
    style_ids: tuple[str, ...]
    script: bytes


@cache
def chart_library() -> ChartLibrary:
    """Return the library, read once; raise `MissingExtra` when plotly is not installed."""
    spec = find_spec("plotly")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = [Path(folder) / "package_data" / "plotly.min.js" for folder in folders]
    if not found or not found[0].is_file():
        raise MissingExtra("the pages need plotly: pip install 'setwise[service]'")
    script = found[0].read_bytes()
    version = _VERSION.search(script)
    return ChartLibrary(
        version="unknown" if version is None else version[1].decode(),
        style_ids=tuple(dict.fromkeys(each.decode() for each in _STYLE_ID.findall(script))),
        script=script,
    )


@cache
def compressed_chart_library() -> bytes:
    """Return the script compressed with gzip, less than a third of its size."""
    return gzip.compress(chart_library().script, 6, mtime=0)


_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/{version}/{name}")
async def static_file(version: str, name: str) -> Response:
    """Give one of our own files."""
    if version != static_version() or name not in static_files():
        raise HTTPException(404)
    contents, kind = static_files()[name]
    return Response(contents, media_type=kind, headers=_FOR_GOOD)


@router.get("/charts/{version}/plotly.min.js")
async def charts(request: Request, version: str) -> Response:
    """Give the chart library, compressed for whoever can read that."""
    if version != chart_library().version:
        raise HTTPException(404)
    headers = _FOR_GOOD | {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        compressed = await service_of(request).threads.run(compressed_chart_library)
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, media_type="text/javascript", headers=headers)
    return Response(chart_library().script, media_type="text/javascript", headers=headers)
