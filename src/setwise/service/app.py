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
from setwise.service.api import accounts, audit, calculators, datasets, error_responses, health, people, queries
from setwise.service.api.body_limit import BodyLimit
from setwise.service.auth.permissions import API, RIGHTS, methods_at
from setwise.service.pages import add_pages, page_not_found
from setwise.service.replica import Service, open_service
from setwise.service.settings import Settings

ROUTERS = (
    health.router,
    people.router,
    datasets.router,
    accounts.router,
    queries.router,
    audit.router,
    calculators.router,
)


def create_app(settings: Settings, *, service: Service | None = None) -> FastAPI:
    """Return the application of one replica; it opens its stores now and closes them when it shuts down."""
    parts = service or open_service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        beating = asyncio.create_task(parts.runner.beat())
        yield
        beating.cancel()
        await parts.close()

    app = FastAPI(
        title="Setwise",
        version=version("setwise"),
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # the ready-made page would fetch scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = parts
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(BodyLimit, most=settings.body_bytes, seconds=settings.body_seconds)
    add_pages(app)
    app.add_exception_handler(HTTPException, _http_exception)
    _check_rights()
    app.openapi = lambda: _described_once(app)  # type: ignore[method-assign]
    return app


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and (page := page_not_found(request)) is not None:
        return page
    response = error_responses.to_http_exception(error)
    if allowed := methods_at(request.url.path):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _described_once(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = openapi.describe(app)
    return app.openapi_schema


def _check_rights() -> None:
    """Every route of the table exists; that every route is in the table, the guard has seen to."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    missing = RIGHTS.keys() - {(method, route.path) for route in routes for method in route.methods or ()}
    if missing:
        raise LookupError(f"rights are declared for routes that do not exist: {sorted(missing)}")
