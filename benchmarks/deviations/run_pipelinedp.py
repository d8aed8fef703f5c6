"""PipelineDP on its local backend, with the noise and the accountant named by the second argument.

    run_pipelinedp.py RUNS (default | gaussian | default-pld | gaussian-pld)

`default` is the default of `AggregateParams`, Laplace noise, with the accountant that adds budgets up.
It has no distinct counts of a column that is not the user's.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "everyday")]

import pipeline_dp  # noqa: E402
import visits  # noqa: E402
from reporting import Unsupported, report  # noqa: E402

SETTING = sys.argv[2] if sys.argv[2:] else "default"
NOISE = pipeline_dp.NoiseKind.GAUSSIAN if "gaussian" in SETTING else pipeline_dp.NoiseKind.LAPLACE
PEOPLE, VISITS = visits.people(), visits.visits()


def opened():
    accountant = pipeline_dp.PLDBudgetAccountant if "pld" in SETTING else pipeline_dp.NaiveBudgetAccountant
    budget = accountant(total_epsilon=visits.EPSILON, total_delta=visits.DELTA)
    return budget, pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())


def deviations(engine, rows, partition, bounds, per_user, public):
    budget, dp_engine = engine
    asked = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.VARIANCE],
        max_partitions_contributed=1,
        max_contributions_per_partition=per_user,
        min_value=bounds[0],
        max_value=bounds[1],
        noise_kind=NOISE,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=partition, value_extractor=lambda row: row[1]
    )
    found = dp_engine.aggregate(rows, asked, columns, public_partitions=public)
    budget.compute_budgets()
    return {key: max(0.0, float(each.variance)) ** 0.5 for key, each in found}


def ages(engine):
    return deviations(engine, PEOPLE, lambda _: "all", visits.AGES, 1, ["all"])["all"]


def ages_by_team(engine):
    return deviations(engine, PEOPLE, lambda row: row[2], visits.AGES, 1, visits.TEAMS)


def minutes(engine):
    return deviations(engine, VISITS, lambda _: "all", visits.MINUTES, visits.ROWS_PER_USER, ["all"])["all"]


def pages(engine):
    raise Unsupported("no distinct count of a column that is not the user's")


if __name__ == "__main__":
    report(opened, [ages, ages_by_team, minutes, pages], runs=30)
