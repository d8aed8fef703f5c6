"""Every state keeps the pairs and the noise of a series alike, and all or nothing of each update."""

import hashlib
import random
import string

import numpy as np
import pyarrow as pa
import pytest

from setwise.errors import EngineFailed, SetwiseError
from setwise.live.states.base import Batch, History, StateUpdate, join_batches
from setwise.live.states.connect import default_state, is_file, open_state

NONE = History(labels=(), counts=np.zeros((0, 0), dtype=np.int64), noise=np.zeros((0, 0), dtype=np.int64), marks=())


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def backend(request):
    return request.param


@pytest.fixture
def address(backend, request, tmp_path):
    match backend:
        case "duckdb":
            return str(tmp_path / "state.db")
        case "postgresql":
            return request.getfixturevalue("postgresql_server").schema()
        case "clickhouse":
            return request.getfixturevalue("clickhouse_server").database()
        case _:
            request.getfixturevalue("spark_session")
            return f"spark:{tmp_path}"


def candidates(rows):
    names = ("u", "g", "day", "period")
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    kinds = [
        pa.string(),
        pa.string() if not rows or isinstance(rows[0][1], str) else pa.int64(),
        pa.string(),
        pa.int32(),
    ]
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, kinds, strict=True)})


def draws():
    """Noise that is told apart: 1, 2, 3, ..."""
    last = 0

    def draw(count):
        nonlocal last
        last += count
        return np.arange(last - count + 1, last + 1)

    return draw


def count(state, rows, first, until, before, *, contributions=2, draw=None, public=()):
    update = StateUpdate(
        contributions=contributions, first=first, until=until, before=before, draw=draw or draws(), public=public
    )
    return state.count(candidates(rows), update)


def test_a_new_state_has_a_token_that_stays(address):
    with open_state(address, "reach") as state:
        assert state.token() is None
        state.create("one")
        state.create("two")
        assert state.token() == "one"
        assert state.batches() == []
    with open_state(address, "reach") as state:
        assert state.token() == "one"


def test_pairs_count_once_and_the_first_groups_in_order_of_days(address):
    with open_state(address, "reach") as state:
        state.create("token")
        first = count(
            state, [("a", "x", "1", 0), ("a", "y", "2", 1), ("b", "x", "2", 1), ("a", "z", "3", 1)], 0, 2, NONE
        )
        assert first.labels == ("x", "y")
        assert first.counts.tolist() == [[1, 1], [0, 1]]
        assert (first.noise.shape, first.earlier.shape) == ((2, 2), (2, 0))
        second = count(
            state,
            [("a", "x", "3", 2), ("a", "w", "3", 2), ("b", "w", "3", 2), ("b", "v", "4", 2)],
            2,
            3,
            join_batches([first]),
        )
        assert second.labels == ("w",)
        assert second.counts.tolist() == [[0], [0], [1]]
        assert second.earlier.shape == (1, 2)
    with open_state(address, "reach") as state:
        history = join_batches(state.batches())
    assert history.labels == ("x", "y", "w")
    assert history.counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert sorted(history.noise[:2, :2].ravel().tolist()) == [1, 2, 3, 4]
    assert sorted([*history.noise[:, 2].tolist(), *history.noise[2, :2].tolist()]) == [1, 2, 3, 4, 5]


def test_groups_that_are_numbers_stay_numbers(address):
    with open_state(address, "reach") as state:
        state.create("token")
        count(state, [("a", 7, "1", 0), ("b", 30, "1", 0)], 0, 1, NONE, public=(30, 7, 8))
        assert state.batches()[0].labels == (30, 7, 8)


def test_an_update_that_fails_leaves_nothing(address):
    def fails(_):
        raise SetwiseError("no noise")

    with open_state(address, "reach") as state:
        state.create("token")
        with pytest.raises(SetwiseError, match="no noise"):
            count(state, [("a", "x", "1", 0)], 0, 1, NONE, draw=fails)
        assert state.batches() == []
        assert count(state, [("a", "x", "1", 0)], 0, 1, NONE).counts.tolist() == [[1]]


def test_a_period_is_stored_once(address):
    with open_state(address, "reach") as state:
        state.create("token")
        count(state, [("a", "x", "1", 0)], 0, 1, NONE)
        with pytest.raises(EngineFailed):
            count(state, [("b", "x", "1", 0)], 0, 1, NONE)
        assert [batch.counts.tolist() for batch in state.batches()] == [[[1]]]


def test_series_do_not_share_their_pairs(address, tmp_path):
    other = str(tmp_path / "other.db") if is_file(address) else address
    with open_state(address, "one") as one, open_state(other, "two") as two:
        for state in (one, two):
            state.create("token")
            assert count(state, [("a", "x", "1", 0)], 0, 1, NONE).counts.tolist() == [[1]]
        one.destroy()
        assert one.token() is None
        assert two.token() == "token"


def test_users_are_told_apart_as_they_are_written(address):
    with open_state(address, "reach") as state:
        state.create("token")
        rows = [(user, "x", "1", 0) for user in ("a", "A", "a ", "ä", "a\tb", "a\\b", "'", "", "a\nb")]
        assert count(state, rows, 0, 1, NONE).counts.tolist() == [[9]]
        assert count(state, rows, 1, 2, join_batches(state.batches())).counts.tolist() == [[0]]


def test_long_and_hostile_texts_are_counted_like_others(address):
    """A single row must not decide whether updates succeed, whatever text its user or its group is."""
    letters = random.Random(4)
    long = ["".join(letters.choices(string.ascii_letters + "äß\u4e2d", k=6000)) for _ in range(2)]
    texts = [*long, "a\0b", "a", "\0", "", "'; DROP TABLE pairs --", "%s {u} $1", "\\N", "\u202e\u2028", "\U0001f600"]
    texts += ["a\tb\n", "\x01sha256:", "\x01sha256:" + hashlib.sha256(b"\0").hexdigest()]
    rows = [(user, group, "1", 0) for user in texts for group in texts]
    with open_state(address, "reach") as state:
        state.create("token")
        batch = count(state, rows, 0, 1, NONE, contributions=len(texts))
        assert set(batch.labels) == set(texts)
        assert batch.counts.tolist() == [[len(texts)]] * len(texts)
        again = count(state, [*rows, ("new", long[0], "2", 1)], 1, 2, join_batches([batch]), contributions=len(texts))
        assert again.labels == ()
        assert again.counts[batch.labels.index(long[0])].tolist() == [1]
        assert again.counts.sum() == 1


def test_no_label_is_preferred_among_groups_of_one_day(address):
    with open_state(address, "reach") as state:
        state.create("token")
        rows = [(f"u{user}", group, "1", 0) for user in range(400) for group in "abcd"]
        counts = count(state, rows, 0, 1, NONE, contributions=1).counts[:, 0].tolist()
    assert sum(counts) == 400
    assert all(60 < each < 140 for each in counts)


def test_a_batch_is_read_as_it_was_written():
    batch = Batch(
        first=2,
        until=4,
        labels=("x", "y"),
        counts=np.array([[1, 2], [3, 4]]),
        noise=np.array([[-(2**50), 2], [3, 2**50]]),
        earlier=np.array([[5, 6], [7, 8]]),
    )
    again = Batch.read(batch.to_text())
    assert (again.first, again.until, again.labels) == (2, 4, ("x", "y"))
    assert all((getattr(again, name) == getattr(batch, name)).all() for name in ("counts", "noise", "earlier"))


def test_a_state_stands_beside_the_data():
    assert default_state("reach", "duckdb") == "reach.live.db"
    assert default_state("reach", "postgresql://host/shop") == "postgresql://host/shop"
    for engine in ("spark", "local[2]", "spark://host:7077", "chdb:///data", "clickhouse://host/shop"):
        assert default_state("reach", engine) == engine
        assert not is_file(engine)
    assert not is_file("spark:hdfs://host/states")
    assert all(is_file(name) for name in ("reach.live.db", "local.db", "/data/yarn.db", "sparkling"))


def test_one_update_runs_at_a_time(tmp_path):
    import subprocess
    import sys

    address = str(tmp_path / "state.db")
    with open_state(address, "reach") as state:
        state.create("token")
        code = f"from setwise.live.states.connect import open_state; open_state({address!r}, 'reach').token()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "another update of the series 'reach' is running" in done.stderr


@pytest.mark.parametrize("backend", ["clickhouse", "spark"], indirect=True)
def test_the_first_of_two_updates_at_once_wins(address):
    with open_state(address, "reach") as state:
        state.create("token")

        def overtaken(size):
            """Let another update of the same period finish while this one draws its noise."""
            with open_state(address, "reach") as other:
                count(other, [("b", "y", "1", 0), ("c", "y", "1", 0)], 0, 1, NONE)
            return np.zeros(size, dtype=np.int64)

        with pytest.raises(EngineFailed, match="another update"):
            count(state, [("a", "x", "1", 0)], 0, 1, NONE, draw=overtaken)
        (batch,) = state.batches()
        assert (batch.labels, batch.counts.tolist(), batch.noise.tolist()) == (("y",), [[2]], [[1]])
        after = count(state, [("a", "x", "2", 1), ("b", "y", "2", 1)], 1, 2, join_batches([batch]))
        assert (after.labels, after.counts.tolist()) == (("x",), [[0], [1]]), "pairs without a marker are ignored"


def test_markers_are_written_once_on_any_storage_of_spark(spark_session, tmp_path):
    from setwise.live.states.spark import HadoopFiles, LocalFiles

    for files in (LocalFiles(str(tmp_path / "one")), HadoopFiles(spark_session, str(tmp_path / "two"))):
        assert files.read_all() == {}
        files.create()
        assert files.write_new("0", "first \u00e4")
        assert not files.write_new("0", "second")
        assert files.write_new("1", "third")
        assert files.read_all() == {"0": "first \u00e4", "1": "third"}
        files.delete()
        assert files.read_all() == {}
    files.create()
    assert (tmp_path / "two").stat().st_mode & 0o077 == 0


def test_tables_of_earlier_versions_take_long_texts_too(postgresql_server):
    """They had a B-tree key on the pairs, which refuses texts of more than about 2,700 bytes."""
    import psycopg

    url = postgresql_server.schema()
    with open_state(url, "reach") as state:
        state.create("token")
        first = count(state, [("a", "x", "1", 0)], 0, 1, NONE)
    with psycopg.connect(url) as connection:
        connection.execute("DROP INDEX setwise_live_pairs_user")
        connection.execute("ALTER TABLE setwise_live_pairs ADD PRIMARY KEY (series, u, g)")
    long = "".join(random.Random(1).choices(string.ascii_letters, k=5000))
    with open_state(url, "reach") as state:
        second = count(state, [("a", "x", "2", 1), ("b", long, "2", 1)], 1, 2, join_batches([first]))
    assert (second.labels, second.counts.tolist()) == ((long,), [[0], [1]])


def test_roles_that_may_read_new_tables_by_default_may_not_read_a_state(postgresql_server):
    import psycopg

    url = postgresql_server.schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE ROLE "curious Analyst"')
        connection.execute('ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO "curious Analyst"')
        connection.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
        try:
            with open_state(url, "reach") as state:
                state.create("token")
            rights = """
                SELECT relname, has_table_privilege('curious Analyst', oid, 'SELECT') FROM pg_class
                WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
            """
            connection.execute("CREATE TABLE other (n integer)")
            assert dict(connection.execute(rights).fetchall()) == {
                "other": True,
                "setwise_live_series": False,
                "setwise_live_pairs": False,
                "setwise_live_batches": False,
            }
        finally:
            connection.execute('ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM "curious Analyst"')
            connection.execute("ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC")
            connection.execute("DROP TABLE IF EXISTS other")
            connection.execute('DROP ROLE "curious Analyst"')
