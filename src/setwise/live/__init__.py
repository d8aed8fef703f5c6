"""Live series: numbers that are updated period by period from one charge, made when the series is opened."""

from setwise.live.series import LiveSeries, find_live, list_live, open_live
from setwise.live.view import SeriesView

__all__ = ["LiveSeries", "SeriesView", "find_live", "list_live", "open_live"]
