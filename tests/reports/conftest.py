"""A table of visits and a report on it, in a folder of their own."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

REPORT = """
title = "Weekly <usage>"
table = "visits.parquet"
user = "user_id"
epsilon = 1.0
delta = 1e-6
html = "out/weekly.html"
json = "out/weekly.json"

[[questions]]
name = "top_pages"
sql = "SELECT page, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY page ORDER BY users DESC LIMIT 3"
contributions = 2
to = ["out/top_pages.csv", "out/warehouse.duckdb::top_pages"]

[[questions]]
name = "users"
title = "How many people came"
kind = "count"
to = "out/users.json"

[[questions]]
name = "minutes"
kind = "mean"
value = "minutes"
low = 0
high = 60
weight = 2
to = "out/minutes.parquet"
"""


@pytest.fixture(scope="session")
def visits(tmp_path_factory):
    rng = np.random.default_rng(1)
    rows = 20_000
    path = tmp_path_factory.mktemp("visits") / "visits.parquet"
    table = {
        "user_id": rng.integers(0, 3000, rows),
        "page": [f"p{page}" for page in np.minimum(rng.zipf(2, rows), 9)],
        "minutes": rng.integers(0, 60, rows),
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture
def folder(tmp_path, visits, monkeypatch):
    (tmp_path / "visits.parquet").symlink_to(visits)
    (tmp_path / "weekly.toml").write_text(REPORT)
    monkeypatch.chdir(tmp_path)
    return tmp_path
