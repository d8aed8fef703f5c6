"""The application: routes, limits and error answers around one replica's parts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from setwise.service import openapi
from setwise.service.api import accounts, calculators, datasets, operations, people, queries
from setwise.service.auth.permissions import API, check_routes, methods_at
from setwise.service.pages import PAGE_ROUTERS
from setwise.service.pages.rendering import error_page
from setwise.service.problems import error_response
from setwise.service.replica import Service, open_service
from setwise.service.route import BodyLimit, ResponseHeaders
from setwise.service.settings import Settings
from setwise.service.telemetry import RequestIds

ROUTERS = (
    operations.router,
    people.router,
    datasets.router,
    accounts.router,
    queries.router,
    calculators.router,
    *PAGE_ROUTERS,
)


def create_app(settings: Settings, *, service: Service | None = None) -> FastAPI:
    """Return the application of one replica; it opens its stores now and closes them when it shuts down."""
    parts = service or open_service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(parts.runner.beat()), asyncio.create_task(parts.upkeep.run())]
        yield
        await parts.close()
        for task in running:
            task.cancel()

    app = FastAPI(
        title="Setwise",
        version=version("setwise"),
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # the ready-made page would fetch scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = parts
    app.state.error_response = _told
    for router in ROUTERS:
        app.include_router(router)
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    check_routes((method, route.path) for route in routes for method in route.methods or ())
    app.add_middleware(BodyLimit, most=settings.body_bytes, seconds=settings.body_seconds)
    app.add_middleware(ResponseHeaders, tls=settings.secure_cookies)
    app.add_middleware(RequestIds)
    app.add_exception_handler(HTTPException, _no_such_route)
    app.openapi = lambda: _described_once(app)  # type: ignore[method-assign]
    return app


def _told(request: Request, error: Exception) -> Response:
    """Return what an error is told as: a problem document, or a page to whoever reads pages."""
    problem = error_response(error)
    return problem if request.url.path.startswith("/api/") else error_page(request, error, problem)


async def _no_such_route(request: Request, error: Exception) -> Response:
    response = _told(request, error)
    if allowed := methods_at(request.url.path):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _described_once(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = openapi.describe(app)
    return app.openapi_schema
