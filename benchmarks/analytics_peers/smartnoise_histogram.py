"""SmartNoise SQL on pandas: users per item, unknown items, 10 items per user; prints the seconds it took."""

import sys
import time

import pandas as pd  # type: ignore[import-untyped]
import snsql
from snsql import Privacy


def main(path: str) -> None:
    started = time.perf_counter()
    frame = pd.read_parquet(path)
    metadata = {
        "": {
            "data": {
                "events": {
                    "row_privacy": False,
                    "max_ids": 10,
                    "sample_max_ids": True,
                    "censor_dims": True,
                    "user_id": {"type": "int", "private_id": True},
                    "item": {"type": "int"},
                }
            }
        }
    }
    reader = snsql.from_df(frame, privacy=Privacy(epsilon=1.0, delta=1e-6), metadata=metadata)
    found = reader.execute("SELECT item, COUNT(DISTINCT user_id) AS n FROM data.events GROUP BY item")
    print(f"{time.perf_counter() - started} {len(found) - 1}")


main(sys.argv[1])
