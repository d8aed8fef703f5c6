"""What a question costs that names no budget: set by a steward for each account, for statements of BI tools."""

from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from setwise.service.storage import schema
from setwise.service.storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionBudget:
    """The budget of one question, and the hours after which the same statement is a new question.

    Within `fresh_hours` the same statement on the same version of its table replays its stored answer, so a dashboard
    that refreshes a hundred times pays once.
    """

    epsilon: float = 0.1
    delta: float = 1e-9
    fresh_hours: float = 24.0

    def to_dict(self) -> dict[str, float]:
        """Return the budget as JSON has it."""
        return {"epsilon": self.epsilon, "delta": self.delta, "fresh_hours": self.fresh_hours}


class QuestionBudgets:
    """The store of question budgets; an account without one has the default."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, account: str) -> QuestionBudget:
        """Return the question budget of an account."""
        table = schema.question_budgets
        with self._database.reading() as connection:
            row = connection.execute(select(table).where(table.c.account == account)).first()
        if row is None:
            return QuestionBudget()
        return QuestionBudget(epsilon=row.epsilon, delta=row.delta, fresh_hours=row.fresh_hours)

    def put(self, account: str, budget: QuestionBudget) -> None:
        """Set the question budget of an account; it holds for statements from now on."""
        table = schema.question_budgets
        with self._database.writing() as connection:
            connection.execute(delete(table).where(table.c.account == account))
            connection.execute(insert(table).values(account=account, **budget.to_dict()))
