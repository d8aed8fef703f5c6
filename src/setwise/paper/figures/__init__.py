"""The figures, one or two per module: those of the paper, whose labels begin with `fig:`, and Setwise's own (`new:`).

- of the paper: `families.py`, `order_gap.py`, `histograms.py`, `macbeth_noise.py`, `thresholds.py`
- Setwise's own: `adaptive_cost.py`, `unequal_order.py`, `worst_answer.py`, `deployment.py`, `filter_cost.py`
"""
