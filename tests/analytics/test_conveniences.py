"""Python as people expect it: positional guarantees, several deltas, single numbers, pictures and error bars."""

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise import ApproxDP, BoundedRange, Gaussian, Laplace, PureDP, Use
from setwise.errors import InvalidParameter


@pytest.fixture(scope="module")
def visits():
    users = [user for user in range(3000) for _ in range(2)]
    pages = [page for user in range(3000) for page in ("home", "help" if user % 3 else "shop")]
    return pa.table({"who": users, "page": pages, "spent": [user % 7 for user in users]})


def test_guarantees_take_their_parameters_in_order():
    assert PureDP(0.1) == PureDP(epsilon=0.1)
    assert ApproxDP(0.1, 1e-9) == ApproxDP(epsilon=0.1, delta=1e-9)
    assert [each.kind for each in (BoundedRange(0.1), Gaussian(20), Laplace(10))] == [
        "bounded-range",
        "gaussian",
        "laplace",
    ]
    with pytest.raises(InvalidParameter):
        PureDP(-1)


def test_one_use_needs_no_list_and_several_deltas_are_answered_in_order():
    assert setwise.compose(PureDP(0.1)).uses == (Use(PureDP(0.1)),)
    many = setwise.compose("pure:0.1x25")
    found = many.epsilon([1e-3, 1e-6])
    assert found == (many.epsilon(1e-3), many.epsilon(1e-6))
    assert many.delta(np.array([1.0, 2.0])) == (many.delta(1.0), many.delta(2.0))


def test_a_single_number_has_a_value_and_an_interval(visits):
    with setwise.open(visits, user="who", name="visits") as session:
        count = session.count(epsilon=1)
        mean = session.mean(value="spent", low=0, high=7, epsilon=1)
        pages = session.histogram(item="page", domain=["home", "help", "shop"], epsilon=1)
        selected = session.sql("SELECT COUNT(DISTINCT who) AS users FROM visits", epsilon=1)
    assert abs(count.value - 3000) < 50
    assert count.interval[0] <= count.value <= count.interval[1]
    assert abs(mean.value - 3) < 0.2
    assert selected.value == selected.rows[0]["users"]["value"]
    assert list(selected.to_pandas().columns) == ["users", "users_lower", "users_upper"]
    with pytest.raises(InvalidParameter, match="3 items"):
        pages.value  # noqa: B018


def test_error_bars_are_what_pandas_and_matplotlib_take(visits):
    mpl.use("agg")
    with setwise.open(visits, user="who", name="visits") as session:
        pages = session.histogram(item="page", domain=["home", "help", "shop"], epsilon=1)
    bars = pages.error_bars()
    frame = pages.to_pandas().set_index("item")
    assert bars.shape == (2, 3)
    assert np.array_equal(frame["count"] - bars[0], frame["lower"])
    assert np.array_equal(frame["count"] + bars[1], frame["upper"])
    axes = frame["count"].plot.barh(xerr=bars)
    ends = (
        axes.containers[0].lines[2][0].get_segments()
        if axes.containers[0].lines
        else axes.collections[0].get_segments()
    )
    assert sorted(segment[0][0] for segment in ends) == sorted(map(float, frame["lower"]))
    mpl.pyplot.close("all")


def test_pictures_show_in_notebooks_and_tables_go_to_files(visits, tmp_path):
    with setwise.open(visits, user="who", name="visits") as session:
        pages = session.top_k(item="page", k=2, epsilon=2, delta=1e-6)
    picture = pages.plot()
    assert picture._repr_png_().startswith(b"\x89PNG")
    picture.save(tmp_path / "pages.svg")
    assert pages.plot(tmp_path / "pages.png").figure.axes
    written = pages.to_csv(tmp_path / "pages.csv")
    assert (tmp_path / "pages.csv").read_text() == written
    with pytest.raises(InvalidParameter):
        pages.to_csv(tmp_path / "nowhere" / "pages.csv")
