"""Strings that try to be code, paths or markup, in every string field: refused or taken as plain text."""

from typing import Any

import pytest

from tests.service.team import TOP_3, Team, ask
from tests.service.test_bad_input import BODIES, places, with_at, with_value

STRINGS = [
    "'; DROP TABLE service_people; --",
    '" OR "1"="1',
    "1) UNION SELECT name FROM service_people --",
    "country = 'NO' OR 1=1",
    "word FROM read_csv('/etc/passwd') --",
    "../../etc/passwd",
    "file:///etc/passwd",
    "{{7*7}}${7*7}",
    "<script>alert(1)</script>",
    "x\r\nSet-Cookie: a=b",
    "nul\x00byte",
    "\u202e\u0000\ufeff",
    "%s%n%d",
    "a" * 5000,
]


def answered(team: Team, method: str, path: str, body: Any, key: str = "injection") -> int:
    client = team.ada if path in {"/preview", "/queries", "/compose", "/calibrate"} else team.steward
    response = client.request(method, path, json=body, headers={"Idempotency-Key": key})
    assert response.headers["content-type"] in {"application/json", "application/problem+json"}
    assert "set-cookie" not in response.headers
    return response.status_code


@pytest.mark.parametrize(
    ("method", "path", "body"), BODIES, ids=[f"{path}-{n}" for n, (_, path, _) in enumerate(BODIES)]
)
def test_no_string_gets_anywhere(team: Team, method: str, path: str, body: dict[str, Any]):
    strings = [at for at in places(body) if isinstance(with_at(body, at), str)]
    for at in strings:
        for text in STRINGS:
            plain = at[-1] in {"label", "null_item"} or at[-2:-1] == ("domain",)
            allowed = {200, 201, 402, 404, 422} if plain else {404, 422}
            status = answered(team, method, path, with_value(body, at, text))
            assert status in allowed, (at, text, status)
    assert team.ada.get("/me").json()["name"] == "ada"
    assert team.steward.get("/audit").json()["faults"] == []


@pytest.mark.parametrize(
    "where",
    [
        "country = 'NO'; SELECT 1",
        "country = 'NO' UNION SELECT 1",
        "country = (SELECT 'NO')",
        "country = 'NO' -- comment",
        "country = 'NO' /* comment */",
        "country = read_text('/etc/passwd')",
        "user_id = 5",
        "1 = 1",
        "country = current_user",
        "country = $1",
        'country = "word"',
    ],
)
def test_no_filter_breaks_out(team: Team, where: str):
    query = {"kind": "top-k", "item": "word", "k": 3, "where": where}
    before = team.ada.get("/accounts/ada-events").json()["charges"]
    refused = ask(team.ada, "filter", TOP_3 | {"query": query})
    assert (refused.status_code, refused.json()["field"]) == (422, "query.where")
    assert team.ada.get("/accounts/ada-events").json()["charges"] == before


def test_quotes_in_a_constant_are_part_of_it(team: Team):
    query = {"kind": "count", "where": "country = 'N''O'' OR ''1''=''1'"}
    spend = {"kind": "draws", "counts": "pure:0.1"}
    answer = ask(team.ada, "quoted", TOP_3 | {"query": query, "spend": spend})
    assert answer.status_code == 200, answer.text
    assert abs(answer.json()["answer"]["items"][0]["count"]) < 300  # nobody is from there


@pytest.mark.parametrize("text", STRINGS)
def test_headers_are_plain_text(team: Team, text: str):
    if not text.isprintable() or not text.isascii():
        return
    assert ask(team.ada, text).status_code == 422
    assert team.replica.as_holder(text).get("/me").status_code == 401
