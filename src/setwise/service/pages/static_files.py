"""Our own styles and scripts, and the chart library, under addresses that change with their contents."""

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from setwise.service.auth.route import service_of
from setwise.service.pages.assets import chart_library, compressed_chart_library, static_files, static_version
from setwise.service.pages.route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)

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
        compressed = await service_of(request).pool.run(compressed_chart_library)
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, media_type="text/javascript", headers=headers)
    return Response(chart_library().script, media_type="text/javascript", headers=headers)
