"""Our own styles and scripts, and the chart library, under addresses that change with their contents."""

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from setwise.service.guard import service_of
from setwise.service.pages.chart_library import chart_library
from setwise.service.pages.page_route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}
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
    library = await service_of(request).pool.run(chart_library)
    if version != library.version:
        raise HTTPException(404)
    headers = _FOR_GOOD | {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(library.compressed, media_type="text/javascript", headers=headers)
    return Response(library.plain, media_type="text/javascript", headers=headers)
