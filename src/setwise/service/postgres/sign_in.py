"""Sign-in over PostgreSQL's protocol: the password is a token of the person, and the database is the person's account.

The token arrives in clear text, so `server.py` asks for it only inside TLS or from this machine. There is no SCRAM (a
method that does not send the password), because the service stores only hashes of tokens.
"""

from collections.abc import Sequence

from setwise.analytics.schema import Schema
from setwise.errors import Forbidden, NotSignedIn, UnknownAccount
from setwise.service.auth.authenticator import MONITORS_EXCLUDED
from setwise.service.postgres.asker import Connected, ServiceAsker
from setwise.service.postgres.selects import ShownTables
from setwise.service.postgres.session import PostgresSession
from setwise.service.postgres.values import TYPE_OF_KIND
from setwise.service.replica import Service
from setwise.service.slots import current_person
from setwise.service.storage.datasets import Dataset
from setwise.service.workers.pool import WorkerPool


async def open_session(
    service: Service, readers: WorkerPool, user: str, database: str, password: str, address: str
) -> PostgresSession:
    """Return the session of the person `user` on the account `database`; `password` is a token of the person.

    `readers` are the worker processes that parse SELECTs. `address` is the client's network address, for the rate limit
    of invalid tokens.

    Raises `NotSignedIn` for a token that is not the person's, `Forbidden` for a monitor (a person who may only read
    metrics), and `UnknownAccount` for an account that is not the person's or has no dataset.
    """
    identity = await service.authenticator.identify_token(password, address)
    if identity.person.name != user:
        raise NotSignedIn("the token is another person's")
    if identity.is_monitor:
        raise Forbidden(MONITORS_EXCLUDED)
    # From here on the calling task runs on behalf of the person, so that threads are shared fairly among people.
    current_person.set(identity.person.name)
    account = await service.threads.run(service.accounts.own, identity, database)
    if not account.terms.dataset:
        raise UnknownAccount(f"the account {database!r} is not on a dataset: ask a steward for one that is")
    dataset = await service.threads.run(service.datasets.get, account.terms.dataset)
    tables = await service.threads.run(_tables, service, dataset)
    shown = ShownTables(database=database, user=user, user_column=dataset.user, tables=tables)
    connected = Connected(
        token=password, address=address, account=account, dataset=dataset, shown=shown, readers=readers
    )
    return PostgresSession(asker=ServiceAsker(service, connected))


def _tables(service: Service, dataset: Dataset) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """Return the tables that a PostgreSQL client sees, as pairs of a name and its (column, type identifier) pairs.

    The tables are `dataset`, with the columns that questions may use, and its public tables (tables without users). The
    types are looked up in the tables, by the connections of `service`.
    """
    schema = service.engines.schema(dataset)
    public = service.engines.public_schemas(dataset).items()
    return (
        (dataset.name, _columns(schema, dataset.columns)),
        *((name, _columns(table, table.names)) for name, table in public),
    )


def _columns(schema: Schema, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return the columns `names` of a schema as pairs of the name and the identifier (OID) of its PostgreSQL type."""
    return tuple((name, TYPE_OF_KIND[schema.column(name).kind]) for name in names)
