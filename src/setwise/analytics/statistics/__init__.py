"""The statistics that a query may ask for, one class each; `STATISTICS` lists them for all user interfaces."""

from setwise.analytics.statistics.count import Count
from setwise.analytics.statistics.distinct import Distinct
from setwise.analytics.statistics.mean import Mean
from setwise.analytics.statistics.quantile import Quantile
from setwise.analytics.statistics.statistic import Statistic
from setwise.analytics.statistics.sum import Sum
from setwise.analytics.statistics.variance import StandardDeviation, Variance

__all__ = ["STATISTICS", "Count", "Distinct", "Mean", "Quantile", "StandardDeviation", "Statistic", "Sum", "Variance"]

STATISTICS: dict[str, type[Statistic]] = {
    statistic.kind: statistic for statistic in (Count, Distinct, Sum, Mean, Quantile, Variance, StandardDeviation)
}
"""The statistics by kind. A new statistic is a class of its own and an entry in this table."""
