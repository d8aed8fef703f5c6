"""How times and memory grow with rows, accounts and entries of the ledger, each with its exponent.

    python benchmarks/growth.py rows        10, 30 and 100 million rows on DuckDB with a memory limit of 2 GiB
    python benchmarks/growth.py accounts    1,000, 10,000 and 100,000 accounts in one SQLite ledger
    python benchmarks/growth.py entries     10,000, 100,000 and a million entries of one account
    python benchmarks/growth.py PART --sizes N ...      other sizes; with --json, one object of named exponents

An exponent is the slope of the logarithm of the processor time over the logarithm of the size, between the two largest
sizes: 1 is linear, 2 quadratic. Each step runs in a process of its own, so that its memory is its own. Processor time
is printed because a busy machine disturbs it less than the clock. Files are written below --folder and removed.
"""

import argparse
import io
import json
import math
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from events_table import write_events
from ledger_filling import fill_sqlite
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import microseconds
from setwise.ledger.register import write_opening
from setwise.ledger.terms import filter_terms
from setwise.mechanisms.randomness import SystemRandomness
from setwise.service.replica import open_service
from setwise.service.settings import Settings

SIZES = {
    "rows": [10_000_000, 30_000_000, 100_000_000],
    "accounts": [1_000, 10_000, 100_000],
    "entries": [10_000, 100_000, 1_000_000],
}
MEMORY = "2GiB"
ROWS_PER_USER, ITEMS = 10, 100_000
ACCOUNT = "ada"
SOME = 50
"""Accounts that are opened, and charges that are made, to measure the time of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one step took: seconds by the clock and of the processors, MiB of memory, and MiB spilled to disk."""

    wall: float
    processor: float
    memory: float
    spilled: float = 0.0


def measured(step: Callable[[Path], float | None], folder: Path) -> Cost:
    """Run a step in a new process and return its cost; what the step returns are MiB that it spilled, or None."""
    context = multiprocessing.get_context("fork")  # a new interpreter would import everything again
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(step, folder, theirs))
    process.start()
    theirs.close()
    found: Cost = ours.recv()
    process.join()
    return found


def _run(
    step: Callable[[Path], float | None], folder: Path, connection: "multiprocessing.connection.Connection"
) -> None:
    """Run a step in this process, and send its cost."""
    began, processor = time.perf_counter(), time.process_time()
    spilled = step(folder)
    connection.send(
        Cost(
            wall=time.perf_counter() - began,
            processor=time.process_time() - processor,
            memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            spilled=spilled or 0.0,
        )
    )


# Rows: each step asks one question of a Parquet file.


def make_rows(folder: Path, size: int) -> None:
    """Write the events; users have ten rows on average."""
    write_events(folder / "events.parquet", rows=size, users=size // ROWS_PER_USER, items=ITEMS)


def _ask(folder: Path, ask: Callable[[DuckDBEngine], object]) -> float:
    """Open the table within the memory limit and ask; return the MiB that were spilled."""
    with open_engine(folder / "events.parquet", memory=MEMORY) as engine:
        assert isinstance(engine, DuckDBEngine)
        ask(engine)
        return engine.spill.most / 2**20


def top_of_all(folder: Path) -> float:
    """The 1,001 items with the most users, every user counted under all of their items."""
    return _ask(folder, lambda engine: engine.top(Aggregation(user="user_id", item="item"), 1001))


def histogram_of_ten(folder: Path) -> float:
    """The whole histogram, every user counted under ten of their items."""
    return _ask(folder, lambda engine: engine.histogram(Aggregation(user="user_id", item="item", contributions=10)))


def whole_answer(folder: Path) -> None:
    """A private top 100 with ten items of a user, from opening the file to the answer."""
    from setwise.analytics.session import Session

    engine = open_engine(folder / "events.parquet", memory=MEMORY)
    with Session(engine, user="user_id", name="events", randomness=SystemRandomness()) as session:
        session.top_k(item="item", k=100, contributions=10, epsilon=1.0, delta=1e-6)


# The ledger: each step opens the ledger, so that its time includes that.


def make_accounts(folder: Path, size: int) -> None:
    """Open many accounts in one transaction, of 500 analysts on 20 datasets."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        terms = filter_terms("x", epsilon=1.0, delta=1e-6)
        at = microseconds(ledger._clock.now())
        with ledger._store.writing() as connection:
            for number in range(size):
                named = replace(terms, name=f"account-{number:06d}", analyst=f"person-{number % 500}")
                write_opening(connection, replace(named, dataset=f"table-{number % 20}"), at)


def make_entries(folder: Path, size: int) -> None:
    """Give one account many entries."""
    url = str(folder / "ledger.db")
    with Ledger.open(url) as ledger:
        ledger.open_setwise(ACCOUNT, [f"pure:0.1x{2 * size}"], delta=1e-6)
    fill_sqlite(url, ACCOUNT, size)


def open_ledger(folder: Path) -> None:
    """Open and close the ledger."""
    Ledger.open(str(folder / "ledger.db")).close()


def list_accounts(folder: Path) -> None:
    """List the status of every account."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        ledger.accounts()


def list_page(folder: Path) -> None:
    """List a page of 100 accounts from the middle, ten times."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        for number in range(10):
            ledger.accounts(after=f"account-{number}", most=100)


def list_own(folder: Path) -> None:
    """List the accounts of one analyst, who has one in 500."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        ledger.accounts(analyst="person-7")


def open_accounts(folder: Path) -> None:
    """Open 50 further accounts."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        for number in range(SOME):
            name = f"new-{number}-{time.time_ns()}"
            ledger.open_filter(name, epsilon=1.0, delta=1e-6, analyst="new", dataset="new")


def charge(folder: Path) -> None:
    """Charge an account 50 times and store the answers."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        names = [ACCOUNT] if _has(ledger, ACCOUNT) else [f"account-{number:06d}" for number in range(SOME)]
        for number in range(SOME):
            account = ledger.account(names[number % len(names)])
            receipt = account.charge(["pure:0.1"], key=f"key-{time.time_ns()}", request="count")
            account.settle(receipt, answer="1")


def _has(ledger: Ledger, name: str) -> bool:
    """Whether the ledger has an account of that name."""
    return any(status.name == name for status in ledger.accounts(after=name[:-1], most=1))


def show(folder: Path) -> None:
    """Show the status of one account with its odometer."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        name = ACCOUNT if _has(ledger, ACCOUNT) else "account-000007"
        ledger.account(name).status().to_dict()


def verify(folder: Path) -> None:
    """Verify every chain and every balance."""
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        assert not ledger.verify().faults


def export(folder: Path) -> None:
    """Export everything as JSON lines to a file."""
    with Ledger.open(str(folder / "ledger.db")) as ledger, (folder / "export.jsonl").open("w") as stream:
        ledger.export(stream)


def restore(folder: Path) -> None:
    """Restore the export into a new ledger."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        Ledger.open(f"{place}/restored.db") as ledger,
        (folder / "export.jsonl").open() as stream,
    ):
        ledger.restore(stream)


def start(folder: Path) -> None:
    """Open the stores and pools of a replica on the ledger."""
    import asyncio

    service = open_service(Settings(ledger=str(folder / "ledger.db"), data_dir=folder))
    asyncio.run(service.close())


STEPS: dict[str, tuple[Callable[[Path, int], None], tuple[Callable[[Path], float | None], ...]]] = {
    "rows": (make_rows, (top_of_all, histogram_of_ten, whole_answer)),
    "accounts": (
        make_accounts,
        (open_ledger, start, list_accounts, list_page, list_own, open_accounts, charge, show, verify, export, restore),
    ),
    "entries": (make_entries, (open_ledger, start, list_accounts, charge, show, verify, export, restore)),
}


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Return the slope of log(cost) over log(size) between the two largest sizes.

    >>> exponent([1, 10, 100], [5.0, 1.0, 100.0])
    2.0
    """
    return math.log(costs[-1] / costs[-2]) / math.log(sizes[-1] / sizes[-2])


def main() -> None:
    """Measure one part at every size and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", choices=STEPS)
    options.add_argument("--sizes", type=int, nargs="+")
    options.add_argument("--folder", type=Path, help="where to write files; a new temporary folder by default")
    options.add_argument("--json", action="store_true", help="print one object of named exponents")
    given = options.parse_args()
    sizes = given.sizes or SIZES[given.part]
    make, steps = STEPS[given.part]
    costs: dict[str, list[Cost]] = {step.__name__: [] for step in steps}
    idle = measured(_nothing, Path())
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=given.folder) as place:
            measured(partial(_make, make, size), Path(place))
            for step in steps:
                costs[step.__name__].append(measured(step, Path(place)))
                cost = costs[step.__name__][-1]
                print(
                    f"{size:>12,}  {step.__name__:18}{cost.wall:10.2f} s{cost.processor:10.2f} s CPU", file=sys.stderr
                )
    exponents = {name: exponent(sizes, [cost.processor for cost in found]) for name, found in costs.items()}
    if given.json:
        print(json.dumps({f"{given.part}_{name}_exponent": slope for name, slope in exponents.items()}))
        return
    print(f"{'CPU seconds, and MiB above an idle process':20}")
    print(f"{given.part:20}" + "".join(f"{size:>22,}" for size in sizes) + f"{'exponent':>10}")
    for name, found in costs.items():
        cells = [f"{cost.processor:.2f} s, {max(0.0, cost.memory - idle.memory):,.0f}" for cost in found]
        cells = [
            f"{cell}{f' +{cost.spilled:,.0f}' * (cost.spilled > 0)}" for cell, cost in zip(cells, found, strict=True)
        ]
        print(f"{name:20}" + "".join(f"{cell:>22}" for cell in cells) + f"{exponents[name]:10.2f}")


def _make(make: Callable[[Path, int], None], size: int, folder: Path) -> None:
    """Make the files of one size in `folder`."""
    make(folder, size)


def _nothing(_: Path) -> None:
    """Do nothing, to measure the memory of the imports."""
    io.StringIO(os.linesep)


if __name__ == "__main__":
    main()
