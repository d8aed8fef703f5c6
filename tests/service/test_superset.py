"""A real Superset connects through PostgreSQL's protocol, lists the tables, and draws two charts on one dashboard."""

from pathlib import Path
from typing import Any

import pytest

from setwise.service.settings import Settings
from tests.servers import superset
from tests.service.replica import QUICK, free_port, running
from tests.service.team import gather, made, write_events

REFRESHES = 100


def metric(expression: str, label: str) -> dict[str, Any]:
    return {"expressionType": "SQL", "sqlExpression": expression, "label": label}


def chart(dataset: int, columns: list[str], metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the browser sends for a bar chart that is refreshed past Superset's own cache."""
    query = {"columns": columns, "metrics": metrics, "row_limit": 1000, "orderby": [[metrics[0], False]]}
    return {
        "datasource": {"id": dataset, "type": "table"},
        "force": True,
        "queries": [query],
        "result_format": "json",
        "result_type": "full",
    }


@pytest.mark.slow
def test_superset_draws_two_charts_and_a_hundred_refreshes_are_one_charge_each(tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    write_events(data / "events.parquet")
    port = free_port()
    settings = Settings(ledger=str(tmp_path / "s.db"), data_dir=data, postgres=f"127.0.0.1:{port}", **QUICK)
    home = tmp_path / "superset"
    home.mkdir()
    with running(settings) as replica, superset.running(home) as tool:
        team = gather(replica)
        body = {
            "name": "visits",
            "table": "events.parquet",
            "user": "user_id",
            "items": ["country", "word"],
            "values": ["minutes"],
            "filters": ["country"],
            "contributions": 2,
        }
        made(team.steward.post("/datasets", json=body | {"apart": "the same events for dashboards"}))
        account = {"kind": "filter", "name": "ada-visits", "analyst": "ada", "dataset": "visits", "delta": 1e-6}
        made(team.steward.post("/accounts", json=account | {"epsilon": 20.0}))

        def charges() -> int:
            return int(team.ada.get("/accounts/ada-visits").json()["charges"])

        address = f"postgresql+psycopg2://ada:{team.ada_token}@127.0.0.1:{port}/ada-visits"
        connection = {"database_name": "private", "sqlalchemy_uri": address}
        tool.post("/database/test_connection/", connection)
        database = tool.post("/database/", connection)["id"]
        assert set(tool.get(f"/database/{database}/schemas/")["result"]) == {"information_schema", "public"}
        tables = tool.get(f"/database/{database}/tables/?q=(schema_name:public)")["result"]
        assert [table["value"] for table in tables] == ["visits"]
        dataset = tool.post("/dataset/", {"database": database, "schema": "public", "table_name": "visits"})["id"]
        columns = {each["column_name"]: each["type"] for each in tool.get(f"/dataset/{dataset}")["result"]["columns"]}
        assert columns == {"user_id": "BIGINT", "country": "TEXT", "word": "TEXT", "minutes": "BIGINT"}
        assert charges() == 0

        users = metric("COUNT(DISTINCT user_id)", "users")
        by_country = chart(dataset, ["country"], [users])
        by_word = chart(dataset, ["word"], [users])
        first = [tool.post("/chart/data", body)["result"][0] for body in (by_country, by_word)]
        assert all(drawn["status"] == "success" for drawn in first)
        assert {row["country"] for row in first[0]["data"]} == {"NO", "SE"}
        assert all(2000 < row["users"] < 3200 for row in first[0]["data"])
        assert max(first[1]["data"], key=lambda row: row["users"])["word"] == "w1"
        assert charges() == 2

        for _ in range(REFRESHES):
            drawn = tool.post("/chart/data", by_country)["result"][0]
            assert drawn["is_cached"] in (None, False)
            assert drawn["data"] == first[0]["data"]
        assert charges() == 2, "a hundred refreshes of a chart are the charge of its first drawing"

        samples = tool.client.post("/api/v1/chart/data", json=by_country | {"result_type": "samples"})
        assert samples.status_code != 200 or samples.json()["result"][0]["error"]
        assert charges() == 2
