"""`setwise demo`: a worked composition, from one query to a year of them."""

_QUERIES = (
    ("one top-10 query: ten picks", ["bounded-range:0.1x10"]),
    ("and counts for the ten, with Laplace noise", ["bounded-range:0.1x10", "laplace:10x10"]),
    ("or with Gaussian noise of about the same size", ["bounded-range:0.1x10", "gaussian:14.14x10"]),
    ("a week: 25 picks and 25 counts, in any order", ["bounded-range:0.1x25", "pure:0.1x25"]),
    ("a quarter: 500 picks, 100 counts", ["bounded-range:0.1x500", "pure:0.05x100"]),
)
_DELTA = 1e-6


def demo() -> None:
    """Compose what an analyst may ask in a day, a week and a quarter, and show what each way of counting promises."""
    from rich.console import Console
    from rich.table import Table

    from setwise.accounting.compose import compose
    from setwise.accounting.moments import subgaussian_sum

    table = Table(title=f"Overall epsilon at delta = {_DELTA:g}", title_justify="left", title_style="bold")
    table.add_column("what the analyst may ask", overflow="fold")
    for name in ("batch", "set-wise", "paper's bound", "on the fly"):
        table.add_column(name, justify="right")
    for name, uses in _QUERIES:
        setwise = compose(uses)
        moments = subgaussian_sum(setwise.uses)
        assert moments is not None
        table.add_row(
            name,
            f"{compose(uses, 'batch').epsilon(_DELTA).upper:.3f}",
            f"{setwise.epsilon(_DELTA).upper:.3f}",
            f"{moments.paper_epsilon(_DELTA):.3f}",
            f"{compose(uses, 'adaptive').epsilon(_DELTA).upper:.3f}",
        )
    console = Console()
    console.print(table)
    console.print(
        "batch: every question chosen up front. set-wise: drawn from this list in any order, each chosen after the "
        "answers before it (certified optimum). paper's bound: eq:setWiseCompEps2 for the same. on the fly: parameters "
        "not even fixed in advance (a zCDP filter)."
    )
    console.print("Try: setwise compose pure:0.1x25 bounded-range:0.1x25 --delta 1e-6")
