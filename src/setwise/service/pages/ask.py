"""Ask: the form of a question; a script previews it as it is typed, asks it, and shows the answer."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, kind_in_words
from setwise.analytics.budget import drawn_for
from setwise.analytics.schema import Kind, Schema
from setwise.ledger.status import AccountStatus
from setwise.service.api.views import AccountView
from setwise.service.auth.people import Identity
from setwise.service.pages.rendering import render
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

_EXAMPLES = {
    Kind.TEXT: "= 'a'",
    Kind.BOOLEAN: "= TRUE",
    Kind.DATE: "< '2024-01-01'",
    Kind.TIMESTAMP: "< '2024-01-01'",
    Kind.INSTANT: "< '2024-01-01 00:00:00+00:00'",
    Kind.INTEGER: ">= 10",
    Kind.FLOAT: ">= 10",
    Kind.DECIMAL: ">= 10",
    Kind.IDENTIFIER: "IS NOT NULL",
    Kind.OTHER: "IS NOT NULL",
}
"""The rest of a filter on a column of each kind."""

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/ask")
async def ask_page(request: Request, account: str = "") -> Response:
    """Show the form, with what may be asked and who may pay."""
    service, identity = service_of(request), caller(request)
    choices = await service.threads.run(_choices, service, identity)
    return render(request, "ask.html", charts=True, choices=choices, chosen=account, csrf=identity.csrf or "")


def _choices(service: Service, identity: Identity) -> dict[str, object]:
    """Return the data sets that this person has an account on, and the accounts."""
    own = service.accounts.all_own(identity)
    names = {each.dataset for each in own}
    datasets = []
    for dataset in service.datasets.all():
        if dataset.name in names:
            schema = service.engines.schema(dataset)
            datasets.append(
                {
                    "name": dataset.name,
                    "user": dataset.user,
                    "contributions": dataset.contributions,
                    "per_item": dataset.per_item,
                    "public": {
                        name: [{"name": column.name, "kind": str(column.kind)} for column in columns]
                        for name, columns in service.engines.public_schemas(dataset).items()
                    },
                    **{
                        role: [_column(schema, name) for name in columns]
                        for role, columns in (
                            ("items", dataset.items),
                            ("values", dataset.values),
                            ("filters", dataset.filters),
                        )
                    },
                }
            )
    known = {dataset["name"] for dataset in datasets}
    accounts = [
        view.model_dump(mode="json") | {"draws": _draws(status)}
        for status, view in zip(own, AccountView.listed(own), strict=True)
        if view.dataset in known
    ]
    return {"datasets": datasets, "accounts": accounts}


def _draws(status: AccountStatus) -> list[dict[str, object]]:
    """Return the registered draws of an account: each as it is written and in words, and what it can be drawn for."""
    return [
        {"use": format_use(Use(use.guarantee)), "words": kind_in_words(use.guarantee), "role": drawn_for(use.guarantee)}
        for use in status.terms.uses
    ]


def _column(schema: Schema, name: str) -> dict[str, str]:
    """Return what the form says of a column, with an example of a filter on it."""
    kind = schema.column(name).kind
    return {"name": name, "kind": str(kind), "example": _EXAMPLES[kind]}
