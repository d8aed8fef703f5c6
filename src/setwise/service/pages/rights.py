"""Who may open which page: one table, read by the guard of every page and walked by the tests."""

from collections.abc import Iterable

from fastapi import APIRouter
from fastapi.routing import APIRoute

from setwise.service.rights import Access

PAGES: dict[tuple[str, str], Access] = {
    ("GET", "/static/{version}/{name}"): Access.ANYONE,
    ("GET", "/charts/{version}/plotly.min.js"): Access.ANYONE,
    ("GET", "/login"): Access.ANYONE,
    ("POST", "/login"): Access.ANYONE,
    ("POST", "/logout"): Access.ANYONE,
    ("GET", "/"): Access.PERSON,
    ("GET", "/explore"): Access.PERSON,
    ("GET", "/explore/curve"): Access.PERSON,
    ("GET", "/accounts"): Access.PERSON,
    ("GET", "/accounts/{account}"): Access.PERSON,
    ("GET", "/ask"): Access.PERSON,
    ("GET", "/answers/{query}"): Access.PERSON,
    ("GET", "/answers/{query}/panel"): Access.PERSON,
    ("GET", "/answers/{query}/answer.csv"): Access.PERSON,
    ("GET", "/answers/{query}/answer.json"): Access.PERSON,
    ("GET", "/steward"): Access.STEWARD,
    ("GET", "/steward/audit"): Access.STEWARD,
    ("GET", "/steward/verify"): Access.STEWARD,
}


def check_rights(routers: Iterable[APIRouter]) -> None:
    """Every page of the table exists; that every page is in the table, the guard has seen to."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    missing = PAGES.keys() - {(method, route.path) for route in routes for method in route.methods or ()}
    if missing:
        raise LookupError(f"rights are declared for pages that do not exist: {sorted(missing)}")
