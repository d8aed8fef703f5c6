"""Who may use which route: one table, read by the guard of every route and walked by the authorisation tests."""

import re
from collections.abc import Iterable
from enum import StrEnum

from fastapi import APIRouter
from fastapi.routing import APIRoute


class Access(StrEnum):
    """Whom a route admits."""

    ANYONE = "anyone"
    """No token needed; says nothing about data or people."""
    PERSON = "person"
    """Anybody with a valid token; analysts see only what is theirs."""
    STEWARD = "steward"
    """Stewards only."""


API = "/api/v1"

RIGHTS: dict[tuple[str, str], Access] = {
    ("GET", f"{API}/health"): Access.ANYONE,
    ("GET", f"{API}/metrics"): Access.PERSON,
    ("GET", f"{API}/me"): Access.PERSON,
    ("GET", f"{API}/datasets"): Access.PERSON,
    ("POST", f"{API}/datasets"): Access.STEWARD,
    ("GET", f"{API}/datasets/{{dataset}}"): Access.PERSON,
    ("PUT", f"{API}/datasets/{{dataset}}/cap"): Access.STEWARD,
    ("GET", f"{API}/accounts"): Access.PERSON,
    ("POST", f"{API}/accounts"): Access.STEWARD,
    ("GET", f"{API}/accounts/{{account}}"): Access.PERSON,
    ("GET", f"{API}/accounts/{{account}}/history"): Access.PERSON,
    ("GET", f"{API}/datasets/{{dataset}}/joint"): Access.STEWARD,
    ("GET", f"{API}/audit"): Access.STEWARD,
    ("POST", f"{API}/preview"): Access.PERSON,
    ("GET", f"{API}/queries"): Access.PERSON,
    ("POST", f"{API}/queries"): Access.PERSON,
    ("GET", f"{API}/queries/{{query}}"): Access.PERSON,
    ("DELETE", f"{API}/queries/{{query}}"): Access.PERSON,
    ("POST", f"{API}/compose"): Access.PERSON,
    ("POST", f"{API}/calibrate"): Access.PERSON,
    ("GET", f"{API}/people"): Access.STEWARD,
    ("POST", f"{API}/people"): Access.STEWARD,
    ("GET", f"{API}/people/{{person}}/tokens"): Access.STEWARD,
    ("POST", f"{API}/people/{{person}}/tokens"): Access.STEWARD,
    ("DELETE", f"{API}/people/{{person}}/tokens/{{token}}"): Access.STEWARD,
}


def methods_at(address: str) -> set[str]:
    """Return the methods of the routes that an address falls under.

    >>> sorted(methods_at("/api/v1/queries/5f2b"))
    ['DELETE', 'GET']
    """
    return {method for method, path in RIGHTS if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), address)}


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
