"""SmartNoise SQL over a pandas frame."""

import pandas
import people
from reporting import Unsupported, report
from snsql import Mechanism, Privacy, Stat, from_connection


def opened():
    columns = {
        "user_id": {"type": "int", "private_id": True},
        "age": {"type": "int", "lower": 0, "upper": 100},
        "minutes": {"type": "int", "lower": 0, "upper": 1440},
        "occupation": {"type": "string"},
    }
    metadata = {"": {"": {"people": {"max_ids": 1, "row_privacy": False, "censor_dims": True, **columns}}}}
    privacy = Privacy(epsilon=people.EPSILON, delta=people.DELTA)
    return from_connection(pandas.read_csv(people.CSV), privacy=privacy, metadata=metadata)


def opened_with_gaussian():
    reader = opened()
    gaussian = (Stat.count, Stat.sum_int, Stat.sum_large_int, Stat.sum_float)
    reader.privacy.mechanisms.map |= dict.fromkeys(gaussian, Mechanism.gaussian)
    return reader


def count(reader):
    return float(reader.execute("SELECT COUNT(DISTINCT user_id) AS n FROM people WHERE age >= 30")[1][0])


def mean(reader):
    return float(reader.execute("SELECT AVG(age) AS mean FROM people")[1][0])


def median(reader):
    raise Unsupported("no quantiles")


def quartiles(reader):
    raise Unsupported("no quantiles")


def histogram(reader):
    _, *rows = reader.execute("SELECT occupation, COUNT(DISTINCT user_id) AS n FROM people GROUP BY occupation")
    return {occupation: float(count) for occupation, count in rows}


def left(reader):
    reader.execute("SELECT COUNT(DISTINCT user_id) AS n FROM people")
    return reader.odometer.spent[0]


if __name__ == "__main__":
    report(opened, [count, mean, median, quartiles, histogram, left], runs=50)
    report(opened_with_gaussian, [count, mean, histogram], runs=50, setting="Gaussian")
