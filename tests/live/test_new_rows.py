"""An update reads the rows of new periods alone where the table allows: older ones may even be unreadable."""

from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.errors import UnsuitableTable
from setwise.live.series import open_live
from setwise.live.states.base import joined
from setwise.live.states.connect import open_state

START, DAYS, PER_DAY = date(2026, 1, 1), 20, 500
TODAY = date(2026, 6, 1)


def write_events(path):
    """Events in the order of their time, a group of rows for each day."""
    random = np.random.default_rng(2)
    users = np.array([f"user {number:06d}" for number in random.integers(0, 10**6, DAYS * PER_DAY)])
    days = np.repeat(np.arange(DAYS), PER_DAY)
    table = {
        "user": users,
        "item": np.array(["x", "y"])[random.integers(0, 2, DAYS * PER_DAY)],
        "at": pa.array(np.datetime64(START, "s") + days * 86_400 + 3600).cast(pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), path, row_group_size=PER_DAY, compression="none", use_dictionary=False)


def spoil(path, groups):
    """Overwrite the data of some groups of rows; their statistics in the footer stay."""
    metadata = pq.ParquetFile(path).metadata
    with path.open("r+b") as file:
        for group in groups:
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(column)
                file.seek(chunk.data_page_offset)
                file.write(b"\xff" * chunk.total_compressed_size)


@pytest.mark.parametrize("late", [0, 2])
def test_days_that_were_released_are_not_read_again(ledger, tmp_path, late):
    path = tmp_path / "events.parquet"
    write_events(path)
    series = open_live(
        ledger, "reach", str(path), user="user", item="item", at="at", every="day", start=START, periods=DAYS,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x", "y"], late_days=late, state=str(tmp_path / "state.db"),
    )  # fmt: skip
    last = DAYS - 1
    series.update(until=START + timedelta(days=last), today=TODAY)
    spoil(path, range(last - late))
    assert series.update(until=START + timedelta(days=DAYS), today=TODAY) == (
        (START + timedelta(days=last)).isoformat(),
    )
    with open_state(series.opening.state, "reach") as state:
        counted = joined(state.batches()).counts
    assert counted[:, last].sum() > 0.97 * PER_DAY
    assert counted.sum() > 0.97 * DAYS * PER_DAY


def test_the_spoilt_days_cannot_be_read(ledger, tmp_path):
    """Otherwise the test above would show nothing."""
    path = tmp_path / "events.parquet"
    write_events(path)
    spoil(path, range(DAYS - 1))
    series = open_live(
        ledger, "reach", str(path), user="user", item="item", at="at", every="day", start=START, periods=DAYS,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x", "y"], state=str(tmp_path / "state.db"),
    )  # fmt: skip
    with pytest.raises(UnsuitableTable, match="cannot be read"):
        series.update(until=START + timedelta(days=DAYS), today=TODAY)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", tz="UTC"), pa.timestamp("ns")])
def test_rows_are_taken_by_times_of_every_kind(ledger, tmp_path, kind):
    path = tmp_path / "events.parquet"
    moments = pa.array([datetime(2026, 1, 1), datetime(2026, 1, 1, 23, 59), datetime(2026, 1, 2), datetime(2026, 1, 3)])
    table = {"user": ["a", "b", "c", "d"], "item": ["x"] * 4, "at": moments.cast(pa.timestamp("ms")).cast(kind)}
    pq.write_table(pa.table(table), path)
    series = open_live(
        ledger, "reach", str(path), user="user", item="item", at="at", every="day", start=START, periods=3,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x"], late_days=0, where="item = 'x'",
        state=str(tmp_path / "state.db"),
    )  # fmt: skip
    for day in (1, 2, 3):
        series.update(until=START + timedelta(days=day), today=TODAY)
    with open_state(series.opening.state, "reach") as state:
        assert joined(state.batches()).counts.tolist() == [[2, 1, 1]]
