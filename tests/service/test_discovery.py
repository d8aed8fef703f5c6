"""The service finds private groups in rounds on a borrowed engine, and a retry replays the answer."""

from tests.service.team import Team, asked

WORDS = {
    "dataset": "events",
    "account": "ada-total",
    "query": {"kind": "histogram", "item": "word", "contributions": 5},
    "spend": {"kind": "total", "epsilon": 0.5, "delta": 1e-8},
}


def test_an_answer_in_rounds_is_stored_and_replayed(team: Team):
    first = asked(team.ada, "words", WORDS)["answer"]
    assert first["mechanism"] == "weighted_rounds"
    assert sum(each["groups"] for each in first["found"]["rounds"]) == len(first["items"])
    assert {"w1", "w2"} <= {item["item"] for item in first["items"]}
    again = asked(team.ada, "words", WORDS)["answer"]
    assert (again["items"], again["found"]) == (first["items"], first["found"])
    assert team.ada.get("/accounts/ada-total").json()["charges"] == 1
