"""OpenDP: its Context and Polars."""

import opendp.prelude as dp
import people
import polars as pl
from reporting import report

dp.enable_features("contrib")


def opened():
    return dp.Context.compositor(
        data=pl.scan_csv(people.CSV),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=people.EPSILON, delta=people.DELTA),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=100_000)],
    )


def opened_as_filter():
    return dp.Context.compositor(
        data=pl.scan_csv(people.CSV),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=people.EPSILON, delta=people.DELTA),
        margins=[dp.polars.Margin(max_length=100_000)],
    )


def opened_with_rho():
    """Open it under zCDP, where OpenDP adds Gaussian noise; rho is the largest that it states as the same promise."""
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)

    def states_epsilon(scale):
        gaussian = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        return bool(gaussian.map(1).epsilon(people.DELTA) <= people.EPSILON)

    return dp.Context.compositor(
        data=pl.scan_csv(people.CSV),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=1 / (2 * dp.binary_search(states_epsilon, (0.1, 100.0)) ** 2)),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=100_000)],
    )


def count(context):
    return context.query().filter(pl.col("age") >= 30).select(dp.len()).release().collect().item()


def mean(context):
    both = context.query().select(pl.col("age").fill_null(0).dp.sum((0, 100)), dp.len()).release().collect()
    return both["age"].item() / both["len"].item()


def median(context):
    ranked = (
        pl.col("minutes").cast(float).fill_null(0.0).fill_nan(0.0).dp.median(candidates=[float(n) for n in range(1441)])
    )
    return context.query().select(ranked).release().collect().item()


def quartiles(context):
    minutes = pl.col("minutes").cast(float).fill_null(0.0).fill_nan(0.0)
    candidates = [float(n) for n in range(1441)]
    asked = [minutes.dp.quantile(at, candidates=candidates).alias(str(at)) for at in (0.25, 0.5, 0.75)]
    return sorted(context.query().select(asked).release().collect().row(0))


def histogram(context):
    keys = pl.LazyFrame({"occupation": people.OCCUPATIONS})
    found = context.query().group_by("occupation").agg(dp.len()).with_keys(keys).release().collect()
    return dict(found.rows())


def left(filter_context):
    filter_context.query(epsilon=people.EPSILON / 2, delta=0.0).select(dp.len()).release().collect()
    return filter_context.remaining_privacy_loss()[0]


if __name__ == "__main__":
    report(opened, [count, mean, median, quartiles, histogram], runs=20)
    report(opened_as_filter, [left], runs=20)
    report(opened_with_rho, [count, mean, median, quartiles, histogram], runs=20, setting="zCDP")
