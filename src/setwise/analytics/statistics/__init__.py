"""The statistics that a query may ask for: one class each, in one table that every door reads."""

from setwise.analytics.statistics.count import Count
from setwise.analytics.statistics.mean import Mean
from setwise.analytics.statistics.quantile import Quantile
from setwise.analytics.statistics.statistic import Statistic
from setwise.analytics.statistics.sum import Sum

__all__ = ["STATISTICS", "Count", "Mean", "Quantile", "Statistic", "Sum"]

STATISTICS: dict[str, type[Statistic]] = {statistic.kind: statistic for statistic in (Count, Sum, Mean, Quantile)}
"""The statistics by kind, as guarantees stand in `KINDS`. A new statistic is a class of its own and a place here."""
