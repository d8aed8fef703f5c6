"""PipelineDP on its local backend."""

import people
import pipeline_dp
from reporting import Unsupported, report

FOUND = people.columns()
NOISE = pipeline_dp.NoiseKind.LAPLACE
ROWS = list(zip(FOUND["user_id"], FOUND["age"], FOUND["minutes"], FOUND["occupation"], strict=True))


def opened():
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=people.EPSILON, total_delta=people.DELTA)
    return accountant, pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())


def asked(metrics, low=0, high=1):
    return pipeline_dp.AggregateParams(
        metrics=metrics,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=low,
        max_value=high,
        noise_kind=NOISE,
    )


def extracted(partition, value):
    return pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=partition, value_extractor=value
    )


def count(engine):
    accountant, dp_engine = engine
    rows = [row for row in ROWS if row[1] >= 30]
    columns = extracted(lambda _: "all", lambda _: 1)
    found = dp_engine.aggregate(rows, asked([pipeline_dp.Metrics.PRIVACY_ID_COUNT]), columns, public_partitions=["all"])
    accountant.compute_budgets()
    return float(next(iter(found))[1].privacy_id_count)


def mean(engine):
    accountant, dp_engine = engine
    columns = extracted(lambda _: "all", lambda row: row[1])
    found = dp_engine.aggregate(ROWS, asked([pipeline_dp.Metrics.MEAN], 0, 100), columns, public_partitions=["all"])
    accountant.compute_budgets()
    return float(next(iter(found))[1].mean)


def median(engine):
    accountant, dp_engine = engine
    columns = extracted(lambda _: "all", lambda row: row[2])
    wanted = asked([pipeline_dp.Metrics.PERCENTILE(50)], 0, 1440)
    found = dp_engine.aggregate(ROWS, wanted, columns, public_partitions=["all"])
    accountant.compute_budgets()
    return float(next(iter(found))[1].percentile_50)


def quartiles(engine):
    accountant, dp_engine = engine
    columns = extracted(lambda _: "all", lambda row: row[2])
    wanted = asked([pipeline_dp.Metrics.PERCENTILE(share) for share in (25, 50, 75)], 0, 1440)
    found = dp_engine.aggregate(ROWS, wanted, columns, public_partitions=["all"])
    accountant.compute_budgets()
    return sorted(map(float, next(iter(found))[1]))


def histogram(engine):
    accountant, dp_engine = engine
    columns = extracted(lambda row: row[3], lambda _: 1)
    wanted = asked([pipeline_dp.Metrics.PRIVACY_ID_COUNT])
    found = dp_engine.aggregate(ROWS, wanted, columns, public_partitions=people.OCCUPATIONS)
    accountant.compute_budgets()
    return {key: float(each.privacy_id_count) for key, each in found}


def left(engine):
    raise Unsupported("a budget is split when it is computed, all of it")


if __name__ == "__main__":
    report(opened, [count, mean, median, quartiles, histogram, left], runs=50, helpers=(asked, extracted))
    NOISE = pipeline_dp.NoiseKind.GAUSSIAN
    report(opened, [count, mean, median, quartiles, histogram], runs=50, setting="Gaussian")
