"""Live series: numbers that are updated period by period from one charge, made when the series is opened."""
