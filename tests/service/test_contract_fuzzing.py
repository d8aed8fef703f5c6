"""The whole API against its own description, with generated requests: every answer is one that it allows."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from setwise.service.rights import RIGHTS
from tests.service.replica import Replica
from tests.service.team import Team, ask, gather

EXAMPLES = 6
"""Generated requests per operation and phase, beside those that cover every boundary of the schema."""

# Some requests fit the schema and still cannot be served: a table that is not there, a cap after the first account.
LEFT_OUT = "positive_data_acceptance"


SAME_BODY = "/api/v1/preview"
"""Its body is that of a query, whose every boundary is tried; here it is left to the analyst's phases."""


def test_a_preview_takes_what_a_query_takes(team: Team):
    paths = team.ada.get("/openapi.json").json()["paths"]
    body, same = (paths[f"/api/v1/{name}"]["post"]["requestBody"] for name in ("queries", "preview"))
    assert body == same


@pytest.mark.parametrize(
    ("who", "phases", "left_out"),
    [("steward", "coverage,fuzzing", (SAME_BODY,)), ("analyst", "examples,fuzzing,stateful", ())],
)
def test_every_answer_is_one_that_the_description_allows(
    who: str, phases: str, left_out: tuple[str, ...], start: Callable[..., Replica], tmp_path: Path
):
    team = gather(start(calculator_seconds=1.0))  # many of the generated calculations are long ones
    ask(team.ada, "before")
    token = team.replica.steward if who == "steward" else team.ada_token
    found = subprocess.run(
        [
            str(Path(sys.executable).with_name("st")),
            *("run", f"{team.replica.url}/api/v1/openapi.json", "-H", f"Authorization: Bearer {token}"),
            *("--max-examples", str(EXAMPLES), "--exclude-checks", LEFT_OUT, "--phases", phases),
            *(word for path in left_out for word in ("--exclude-path", path)),
            *("--seed", "20261115", "--generation-database", "none", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert f"Tested: {len(RIGHTS) - len(left_out)}" in found.stdout, found.stdout[-3000:]
