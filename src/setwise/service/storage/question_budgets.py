"""Default budgets of accounts, for SQL statements over PostgreSQL's protocol that state none; stewards set them."""

from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from setwise.contract import QuestionBudgetRecord
from setwise.service.storage import schema
from setwise.service.storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionBudget:
    """The budget (epsilon, delta) that an SQL statement over PostgreSQL's protocol spends if it states no budget.

    If the same statement is sent again within `fresh_hours` hours, and its table is not known to have changed, it gets
    its stored answer and spends nothing. So a dashboard that refreshes a hundred times pays once.
    """

    epsilon: float = 0.1
    delta: float = 1e-9
    fresh_hours: float = 24.0

    def to_dict(self) -> QuestionBudgetRecord:
        """Return the question budget as a JSON object with `epsilon`, `delta` and `fresh_hours`."""
        return {"epsilon": self.epsilon, "delta": self.delta, "fresh_hours": self.fresh_hours}


class QuestionBudgets:
    """The store of question budgets: what an SQL statement over PostgreSQL's protocol spends if it states no budget.

    Each account may have a question budget of its own.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, account: str) -> QuestionBudget:
        """Return the question budget of an account: what an SQL statement that states no budget spends.

        If none was set for the account, a statement spends epsilon 0.1 and delta 1e-9, and the same statement gets its
        stored answer for 24 hours.
        """
        table = schema.question_budgets
        with self._database.reading() as connection:
            row = connection.execute(select(table).where(table.c.account == account)).first()
        if row is None:
            return QuestionBudget()
        return QuestionBudget(epsilon=row.epsilon, delta=row.delta, fresh_hours=row.fresh_hours)

    def put(self, account: str, budget: QuestionBudget) -> None:
        """Set the question budget of `account`: what a later SQL statement spends if it states no budget."""
        table = schema.question_budgets
        with self._database.writing() as connection:
            connection.execute(delete(table).where(table.c.account == account))
            connection.execute(insert(table).values(account=account, **budget.to_dict()))
