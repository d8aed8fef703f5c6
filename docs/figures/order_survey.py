"""Print how often some order of unequal bounded-range parameters is certainly worse than smaller first.

All sets of two, three and four of the parameters 0.25, 0.5, ..., 1.5, at sixteen overall epsilons each: the table of
docs/paper/open-questions.md, in a minute or two. Run it from the repository: python docs/figures/order_survey.py
"""

from setwise.paper.figures.unequal_order import survey

VALUES = tuple(step / 4 for step in range(1, 7))
SHARES = tuple(step / 20 for step in range(16))


def main() -> None:
    """Print one row of the table per size."""
    print("| parameters | cases | smaller first beaten | by at most | choosing the order helps |")  # noqa: T201
    print("|---|---|---|---|---|")  # noqa: T201
    for size in (2, 3, 4):
        found = survey(size, VALUES, SHARES)
        excess = f"{found.largest_excess:.1e}" if found.beaten else "-"
        print(f"| {size} | {found.cases} | {found.beaten} | {excess} | {found.choosing_helps} |")  # noqa: T201


if __name__ == "__main__":
    main()
