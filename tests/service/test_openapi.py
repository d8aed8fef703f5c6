"""The description of the API is complete: every route, every problem, examples that its own schemas accept."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from setwise.service.api.schemas import EXAMPLES, QuestionBody
from setwise.service.auth.permissions import API_ROUTES, Access
from setwise.service.problems import STATUS
from tests.service.team import Team


@pytest.fixture(scope="module")
def description(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = team.nobody.get("/openapi.json").json()
    return found


def test_it_has_exactly_the_routes_of_the_table(description: dict[str, Any]):
    described = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    assert described == set(API_ROUTES)


@pytest.mark.parametrize(("method", "path"), list(API_ROUTES))
def test_every_route_says_what_it_takes_and_gives(description: dict[str, Any], method: str, path: str):
    operation = description["paths"][path][method.lower()]
    assert operation["description"]
    assert operation["tags"]
    assert bool(operation["security"]) == (API_ROUTES[method, path].access is not Access.ANYONE)
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert schema.get("examples") or operation["requestBody"]["content"]["application/json"].get("examples")
    for parameter in operation.get("parameters", []):
        assert parameter["schema"].get("examples") or parameter.get("examples") or parameter.get("example")
    problems = {status for status in operation["responses"] if status >= "400"}
    assert "503" in problems
    assert API_ROUTES[method, path].access is Access.ANYONE or {"401", "429"} <= problems
    for status in problems:
        content = operation["responses"][status]["content"]
        assert list(content) == ["application/problem+json"]
        assert content["application/problem+json"]["example"]["status"] == int(status)


def test_every_field_of_an_answer_has_an_example(description: dict[str, Any]):
    schemas = description["components"]["schemas"]
    shown = {name: schema for name, schema in schemas.items() if name.endswith("Record") or name == "Problem"}
    assert len(shown) >= 15
    for name, schema in shown.items():
        for field, described in schema.get("properties", {}).items():
            nested = "$ref" in str(described)
            assert nested or "examples" in described or "const" in described, (name, field)


def test_the_examples_of_questions_are_questions():
    for example in EXAMPLES:
        TypeAdapter(QuestionBody).validate_python(example)


def test_every_error_of_the_tree_has_a_status():
    from setwise import errors

    leaves = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SetwiseError)
    ]
    assert len(leaves) > 15
    for kind in leaves:
        status = next(STATUS[each] for each in kind.__mro__ if each in STATUS)
        assert 400 <= status < 600
        assert (status < 500) == issubclass(kind, errors.BadRequest | errors.BudgetExhausted)
