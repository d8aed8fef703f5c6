"""The FastAPI application of one replica (process of the service): routers, middleware, error responses and OpenAPI."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from setwise.contract import ProblemRecord
from setwise.service.api import accounts, calculators, catalog, datasets, live, operations, people, queries
from setwise.service.api.schemas import QuestionBody
from setwise.service.auth.authenticator import STEWARDS_ONLY
from setwise.service.auth.permissions import API, API_ROUTES, Access, Permission, check_routes, methods_at
from setwise.service.pages import PAGE_ROUTERS
from setwise.service.pages.rendering import error_page
from setwise.service.postgres.listener import postgres_door
from setwise.service.problems import MEDIA_TYPE, Problem, error_response
from setwise.service.replica import Service, open_service
from setwise.service.route import BodyLimit, ResponseHeaders
from setwise.service.settings import Settings
from setwise.service.telemetry import RequestIds

ROUTERS = (
    queries.router,  # first, because the framework compares a path with the routers in this order
    operations.router,
    people.router,
    datasets.router,
    catalog.router,
    accounts.router,
    live.router,
    calculators.router,
    *PAGE_ROUTERS,
)


def create_app(settings: Settings, *, service: Service | None = None) -> FastAPI:
    """Return the ASGI application of one replica (process of the service).

    The databases and pools that `settings` name are opened now, and closed when the application shuts down. Tests may
    give an open `service`, whose databases and pools are used instead; None opens new ones.
    """
    parts = service or open_service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Run the background tasks and the PostgreSQL listener of `app` while the application runs.

        The tasks write the heartbeats of running queries and do scheduled work. At the shutdown, the databases and
        pools of this process are closed.
        """
        running = [asyncio.create_task(parts.runner.beat()), asyncio.create_task(parts.upkeep.run())]
        async with postgres_door(parts) as address:
            app.state.postgres_address = address
            yield
        await parts.close()
        for task in running:
            task.cancel()

    app = FastAPI(
        title="Setwise",
        version=version("setwise"),
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # FastAPI's own page would fetch scripts from another site
        redoc_url=None,
        # The framework would answer /ask/ with a redirect to an address made of the request's Host header, which a
        # caller chooses: a cache or a link could lead people to another site.
        redirect_slashes=False,
    )
    app.state.service = parts
    app.state.error_response = _error_response
    for router in ROUTERS:
        app.include_router(router)
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    check_routes((method, route.path) for route in routes for method in route.methods or ())
    app.add_middleware(BodyLimit, most=settings.body_bytes, seconds=settings.body_seconds)
    app.add_middleware(ResponseHeaders, tls=settings.secure_cookies)
    app.add_middleware(RequestIds)
    app.add_exception_handler(HTTPException, _no_such_route)
    app.openapi = cache(partial(describe, app))  # type: ignore[method-assign]
    return app


def _error_response(request: Request, error: Exception) -> Response:
    """Return the HTTP response for `error`, which the handling of `request` raised.

    The response is an RFC 9457 problem document if the request is for an API path, and otherwise an HTML page.
    """
    problem = error_response(error, _body_example(request))
    return problem if request.url.path.startswith("/api/") else error_page(request, error, problem)


_LONGEST_EXAMPLE = 200
"""Characters of the longest example of a body that an error shows."""


def _body_example(request: Request) -> str:
    """Return the first example of a body that the route of `request` takes, as JSON text; "" for none or a long one."""
    body = getattr(request.scope.get("route"), "body_field", None)
    examples = None if body is None else body.field_info.examples
    text = json.dumps(examples[0]) if examples else ""
    return text if len(text) <= _LONGEST_EXAMPLE else ""


async def _no_such_route(request: Request, error: Exception) -> Response:
    """Return the response with status 404 or 405 to a `request` for an unknown path or method.

    `error` is the error that the framework raised. If the path exists for other methods, the response has an Allow
    header that lists them.
    """
    response = _error_response(request, error)
    if allowed := methods_at(request.url.path):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


DESCRIPTION = (
    "Private answers from shared tables. Every answer is paid for from an account before data is touched, and "
    "replayed for the same Idempotency-Key. Errors are application/problem+json; `field` names the part of the "
    "request at fault."
)

_ERROR_DESCRIPTIONS = {
    401: ("NotSignedIn", "No token, or one that is unknown, expired or revoked.", "give a token"),
    402: ("BudgetExhausted", "The account cannot pay for this.", "the account has too little left for this"),
    403: ("Forbidden", "This person may not do this.", STEWARDS_ONLY),
    404: ("UnknownName", "Nothing of that name, or not yours to see.", "there is no account named 'x'"),
    408: ("TooSlow", "The body took too long to arrive.", "the body did not arrive within 30 s; send it at once"),
    409: ("KeyConflict", "The name is taken, or the key was used for another request.", "the key was used before"),
    413: ("TooLarge", "The body is too large.", "the body may have at most 1048576 bytes; send less"),
    422: ("InvalidParameter", "A value that cannot be; `field` names it.", "k: Input should be greater than 0"),
    429: ("TooManyRequests", "More requests than allowed; see Retry-After.", "try again in 1 s"),
    503: ("StoreFailed", "A database did not answer.", "the service's database did not answer; try again"),
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the application's API routes."""
    document = get_openapi(
        title="Setwise", version=app.version, openapi_version="3.1.0", description=DESCRIPTION, routes=app.routes
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    question = QuestionBody.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= question.pop("$defs") | {"QuestionBody": question}
    schemas["Problem"] = TypeAdapter(ProblemRecord).json_schema()
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for (method, path), permission in API_ROUTES.items():
        operation = document["paths"][path][method.lower()]
        operation["x-access"] = permission.access
        operation["security"] = [] if permission.access is Access.ANYONE else [{"token": []}]
        operation["responses"].pop("422", None)
        for status in _problems(permission, operation):
            operation["responses"][str(status)] = _describe_error(status)
    return document


def _problems(permission: Permission, operation: dict[str, Any]) -> list[int]:
    """Return the HTTP error statuses that an API operation can respond with, in rising order, for the OpenAPI document.

    - `permission`: whom the route admits, and the error statuses that are special to it
    - `operation`: the route's entry in the OpenAPI document. If it has a request body or parameters, the statuses of
      malformed input are added
    """
    statuses = {503, *permission.problems}
    match permission.access:
        case Access.HOLDER:
            statuses |= {401, 429}
        case Access.PERSON | Access.STEWARD:
            statuses |= {401, 403, 429}
    if "requestBody" in operation:
        statuses |= {408, 413, 422}
    if "parameters" in operation:
        statuses.add(422)
    return sorted(statuses)


def _describe_error(status: int) -> dict[str, Any]:
    """Return the OpenAPI description of the error response with this HTTP status."""
    name, description, detail = _ERROR_DESCRIPTIONS[status]
    example = Problem(name=name, status=status, detail=detail).document()
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
    response: dict[str, Any] = {"description": description, "content": {MEDIA_TYPE: content}}
    if status == 429:
        response["headers"] = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}}
    return response
