"""Live series: noisy counts of users per group that are updated period by period and paid once, at the opening."""

from setwise.live.series import LiveSeries, find_live, list_live, open_live
from setwise.live.view import SeriesView

__all__ = ["LiveSeries", "SeriesView", "find_live", "list_live", "open_live"]
