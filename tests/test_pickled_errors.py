"""Errors reach the caller of a worker process whole: the process sends them as pickles."""

import pickle

from setwise.errors import UnsuitableTable


def test_an_error_that_names_needed_types_survives_pickling() -> None:
    """A worker process that cannot pickle a refusal dies, and the analyst reads only that the calculation failed."""
    error = UnsuitableTable("'country by 10' needs a column of numbers").needing({"country": "float"})
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is UnsuitableTable
    assert str(copy) == str(error)
    assert copy.needed_types == {"country": "float"}
