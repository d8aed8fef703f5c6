"""Bad input at every field of every request: refused with a problem document that names the field."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.team import EVENTS, TOP_3, Team, ask, made, open_account

ACCOUNT = {"name": "x", "analyst": "ada", "dataset": "events", "delta": 1e-6}
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/people", {"name": "eve", "role": "analyst"}),
    ("POST", "/people/ada/tokens", {"label": "x", "expires_at": 4102444800.0}),
    (
        "POST",
        "/datasets",
        {
            "name": "x",
            "engine": "duckdb",
            "table": "events.parquet",
            "user": "user_id",
            "items": ["word"],
            "values": ["minutes"],
            "filters": ["country"],
            "contributions": 3,
            "per_item": 2,
            "types": {"word": "text"},
        },
    ),
    ("PUT", "/datasets/events/cap", {"epsilon": 1.0, "delta": 1e-6}),
    ("POST", "/accounts", ACCOUNT | {"kind": "setwise", "uses": ["pure:0.1"], "every": "month"}),
    ("POST", "/accounts", ACCOUNT | {"kind": "filter", "epsilon": 1.0, "every": "day"}),
    ("POST", "/compose", {"uses": ["pure:0.1"], "interaction": "setwise", "delta": 1e-6}),
    ("POST", "/calibrate", {"uses": ["pure:?x5"], "interaction": "setwise", "epsilon": 1.0, "delta": 1e-6}),
    (
        "POST",
        "/preview",
        TOP_3
        | {
            "query": {
                "kind": "top-k",
                "item": "word",
                "k": 3,
                "contributions": 2,
                "per_item": 1,
                "value": "minutes",
                "domain": ["w1", "w2", "w3"],
                "where": "country = 'NO'",
                "null_item": "none",
                "limit": 100,
            }
        },
    ),
    ("POST", "/preview", TOP_3 | {"query": {"kind": "histogram", "item": "word", "contributions": 2, "per_item": 1}}),
    ("POST", "/preview", TOP_3 | {"query": {"kind": "count", "per_user": 3, "where": "country = 'NO'"}}),
    ("POST", "/queries", TOP_3 | {"query": {"kind": "sum", "value": "minutes", "clip": 60}}),
    (
        "POST",
        "/queries",
        TOP_3
        | {"spend": {"kind": "total", "epsilon": 0.1, "delta": 1e-9, "counts": "best", "mechanism": "unknown_gumbel"}},
    ),
]


def places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a body."""
    if at:
        yield at
    inside = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in inside:
        yield from places(value, (*at, name))


def with_value(body: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(body)
    holder = changed
    for part in at[:-1]:
        holder = holder[part]
    holder[at[-1]] = value
    return changed  # type: ignore[no-any-return]


def refused(team: Team, method: str, path: str, body: Any) -> dict[str, Any]:
    client = team.ada if path in {"/preview", "/queries", "/compose", "/calibrate"} else team.steward
    response = client.request(method, path, json=body, headers={"Idempotency-Key": "bad"})
    assert response.status_code == 422, (path, body, response.text)
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == 422
    assert len(problem["detail"]) > len(problem["field"])
    return problem


@pytest.mark.parametrize(
    ("method", "path", "body"), BODIES, ids=[f"{path}-{n}" for n, (_, path, _) in enumerate(BODIES)]
)
def test_a_value_of_another_kind_is_refused_by_name(team: Team, method: str, path: str, body: dict[str, Any]):
    tried = 0
    for at in places(body):
        name = ".".join(map(str, at))
        # A list where an object or a plain value belongs, and an object where a list does.
        wrong: Any = {"not": "this"} if isinstance(with_at(body, at), list) else [None]
        problem = refused(team, method, path, with_value(body, at, wrong))
        expected = name.removesuffix("kind").removesuffix(".") or "body"  # a kind is of the part that it tells apart
        assert problem["field"] in (expected, f"{expected}.0")  # one of a list, where a list may stand
        tried += 1
    assert tried >= len(body)


def with_at(body: Any, at: tuple[Any, ...]) -> Any:
    for part in at:
        body = body[part]
    return body


@pytest.mark.parametrize(
    ("method", "path", "body"), BODIES, ids=[f"{path}-{n}" for n, (_, path, _) in enumerate(BODIES)]
)
def test_an_unknown_field_is_refused_by_name(team: Team, method: str, path: str, body: dict[str, Any]):
    assert refused(team, method, path, body | {"surplus": 1})["field"] == "surplus"


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("/compose", {"uses": []}, "uses"),
        ("/compose", {"uses": ["pure:0.1"] * 51}, "uses"),
        ("/compose", {"uses": ["pure:-1"]}, "uses.0"),
        ("/compose", {"uses": ["pure:0.1x100001"]}, "uses.0"),
        ("/compose", {"uses": ["pure:1e999"]}, "uses.0"),
        ("/compose", {"delta": 0.0}, "delta"),
        ("/compose", {"delta": 1.0}, "delta"),
        ("/compose", {"delta": None}, "body"),
        ("/compose", {"epsilon": 1.0}, "body"),
        ("/compose", {"interaction": "psychic"}, "interaction"),
        ("/calibrate", {"uses": ["pure:0.1"]}, "uses"),
        ("/calibrate", {"epsilon": 1e9}, "epsilon"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 0}}, "query.k"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 10**6}}, "query.k"),
        ("/preview", {"query": {"kind": "top-k", "item": "user_id", "k": 1}}, "query.item"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 1, "contributions": 6}}, "query.contributions"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 1, "where": "minutes > 3"}}, "query.where"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 1, "where": "country = "}}, "query.where"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 5, "domain": ["a"]}}, "query"),
        ("/preview", {"query": {"kind": "top-k", "item": "word", "k": 1, "domain": []}}, "query.domain"),
        ("/preview", {"query": {"kind": "top-k", "item": ["word", ""], "k": 1}}, "query.item.1"),
        ("/preview", {"query": {"kind": "quantile", "value": "minutes", "at": 1.5}}, "query.at"),
        ("/preview", {"query": {"kind": "quantile", "value": "minutes", "at": [0.5, 1.5]}}, "query.at.1"),
        ("/preview", {"query": {"kind": "quantile", "value": "minutes", "at": []}}, "query.at"),
        ("/preview", {"query": {"kind": "quantile", "value": "minutes", "at": "half"}}, "query.at"),
        ("/preview", {"query": {"kind": "sum", "value": "word", "clip": 1}}, "query.value"),
        ("/preview", {"query": {"kind": "sum", "value": "minutes", "clip": 0}}, "query.clip"),
        ("/preview", {"query": {"kind": "count", "per_user": 2**63}}, "query.per_user"),
        ("/preview", {"query": {"kind": "median"}}, "query"),
        ("/preview", {"query": {"kind": "histogram", "item": "word", "null_item": 1.5}}, "query.null_item"),
        ("/preview", {"spend": {"kind": "draws"}}, "spend"),
        ("/preview", {"spend": {"kind": "draws", "discover": "pure:0.2"}}, "spend"),
        ("/preview", {"spend": {"kind": "total", "epsilon": 1.0, "delta": 1e-6}}, "spend"),
        ("/preview", {"spend": {"kind": "total", "epsilon": 0.0, "delta": 1e-6}}, "spend.epsilon"),
        ("/datasets", {"table": "missing.parquet"}, "table"),
        ("/datasets", {"table": "../events.parquet"}, "table"),
        ("/datasets", {"table": "/etc/passwd"}, "table"),
        ("/datasets", {"table": "x" * 400}, "table"),
        ("/datasets", {"engine": "spark"}, "table"),
        ("/datasets", {"user": "nobody"}, "user"),
        ("/datasets", {"items": ["nothing"]}, "items"),
        ("/datasets", {"items": ["user_id"]}, "items"),
        ("/datasets", {"filters": ["nothing"]}, "filters"),
        ("/datasets", {"contributions": 0}, "contributions"),
        ("/accounts", {"uses": ["pure:0.1x0"]}, "uses.0"),
        ("/accounts", {"delta": 2.0}, "delta"),
        ("/accounts", {"every": "century"}, "every"),
        ("/people", {"name": "../eve"}, "name"),
        ("/people", {"role": "king"}, "role"),
    ],
)
def test_what_cannot_be_is_refused_by_name(team: Team, path: str, change: dict[str, Any], field: str):
    method, _, body = next(each for each in BODIES if each[1] == path)
    if path == "/preview":
        body = TOP_3
    assert refused(team, method, path, body | change)["field"] == field


def test_all_that_is_wrong_with_a_question_is_named_at_once_with_what_a_steward_registers(team: Team):
    """The name was refused only after the contributions were mended, and a mean without a word on what allows it."""
    wrong = {"kind": "histogram", "item": "wrod", "contributions": 6, "where": "minutes > 3"}
    problem = refused(team, "POST", "/preview", TOP_3 | {"query": wrong})
    assert problem["field"] == "query.item"
    detail = problem["detail"]
    assert "item must be one of the columns allowed here ('word'), not 'wrod'" in detail
    assert "contributions must be at most 5" in detail
    assert "minutes" in detail
    mean = {"kind": "mean", "value": "country", "low": 0, "high": 9}
    allowed = refused(team, "POST", "/preview", TOP_3 | {"query": mean})["detail"]
    assert 'a steward allows columns where a dataset is registered, as in "values": ["country"]' in allowed


def test_more_rows_of_a_user_than_were_declared_are_refused_by_name(team: Team):
    made(team.steward.post("/datasets", json=EVENTS.body | {"name": "one-row", "per_item": 1, "apart": "a test"}))
    open_account(team.steward, "ada-one-row", "ada", dataset="one-row")
    ranking = {"kind": "top-k", "item": "word", "k": 1, "per_item": 2}
    body = TOP_3 | {"dataset": "one-row", "account": "ada-one-row", "query": ranking}
    assert refused(team, "POST", "/preview", body)["field"] == "query.per_item"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/accounts", ACCOUNT | {"kind": "filter", "epsilon": 1.0, "analyst": "nobody"}, "analyst"),
        ("/accounts", ACCOUNT | {"kind": "filter", "epsilon": 1.0, "dataset": "nothing"}, "dataset"),
        ("/people/nobody/tokens", {}, "person"),
    ],
)
def test_what_is_not_there_is_named(team: Team, path: str, body: dict[str, Any], field: str):
    response = team.steward.post(path, json=body)
    assert (response.status_code, response.json()["field"]) == (404, field)


@pytest.mark.parametrize("path", ["/accounts/..%2Fx", "/datasets/a%20b", "/queries/xyz", "/people/a%00b/tokens"])
def test_addresses_are_checked_too(team: Team, path: str):
    response = team.steward.get(path)
    assert response.status_code in {404, 422}
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_a_body_that_is_not_an_object_is_refused(team: Team, content: bytes):
    response = team.ada.post("/compose", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["field"]) == (422, "body")


@pytest.mark.parametrize(("spend", "allowed"), [({"counts": "none"}, "pure"), ({"discover": "best"}, "bounded-range")])
def test_what_is_allowed_is_said_in_words_and_not_as_a_pattern(team: Team, spend: dict[str, str], allowed: str):
    body = {**TOP_3, "spend": {"kind": "draws", "discover": "bounded-range:0.1", **spend}}
    detail = team.ada.post("/preview", json=body).json()["detail"]
    assert allowed in detail
    assert "leave the field out for none" in detail
    assert "pattern" not in detail
    assert "^" not in detail


def test_what_was_given_is_not_repeated(team: Team):
    secret = team.ada_token
    for body in ({"uses": secret}, {"uses": ["pure:0.1"], "delta": secret}, {secret: 1, "uses": []}):
        assert secret not in team.ada.post("/compose", json=body).json()["detail"]


def test_nothing_was_charged_for_what_was_refused(team: Team):
    assert team.ada.get("/accounts/ada-events").json()["charges"] == 0
    assert ask(team.ada, "well").status_code == 200
    assert team.ada.get("/accounts/ada-events").json()["charges"] == 1
