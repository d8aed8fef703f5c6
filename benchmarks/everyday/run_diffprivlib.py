"""diffprivlib: each row is a person here; it has no users."""

import numpy as np
import people
from diffprivlib import BudgetAccountant, tools
from reporting import report


def opened():
    found = {name: np.array(values) for name, values in people.columns().items()}
    return found | {"accountant": BudgetAccountant(epsilon=people.EPSILON, delta=people.DELTA)}


def count(table):
    return float(tools.count_nonzero(table["age"] >= 30, epsilon=1.0, accountant=table["accountant"]))


def mean(table):
    return float(tools.mean(table["age"], epsilon=1.0, bounds=(0, 100), accountant=table["accountant"]))


def median(table):
    return float(tools.median(table["minutes"], epsilon=1.0, bounds=(0, 1440), accountant=table["accountant"]))


def quartiles(table):
    shares = [0.25, 0.5, 0.75]
    found = tools.quantile(table["minutes"], shares, epsilon=1.0, bounds=(0, 1440), accountant=table["accountant"])
    return sorted(map(float, found))


def histogram(table):
    codes = np.array([people.OCCUPATIONS.index(each) for each in table["occupation"]])
    found, _ = tools.histogram(codes, epsilon=1.0, bins=21, range=(0, 21), accountant=table["accountant"])
    return dict(zip(people.OCCUPATIONS, map(float, found), strict=True))


def left(table):
    tools.count_nonzero(table["age"] >= 30, epsilon=0.5, accountant=table["accountant"])
    return table["accountant"].remaining()[0]


if __name__ == "__main__":
    report(opened, [count, mean, median, quartiles, histogram, left], runs=50)
