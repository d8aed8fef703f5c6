"""Writes the results of statements to the client of one PostgreSQL connection: notices, columns and rows."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from setwise.service.postgres import messages
from setwise.service.postgres.copy_out import BINARY_TRAILER, encode_header, row_encoder
from setwise.service.postgres.messages import Field
from setwise.service.postgres.replies import CopyFormat, Reply, Result
from setwise.service.postgres.values import SIZES, ResultColumn, encode
from setwise.service.slots import PersonalLimit, current_person

_ROWS_AT_ONCE = 500
"""Rows that are sent at once; then other connections are served, and the client must read before more are sent."""


class ResultWriter:
    """Writes results to one client as fast as the client reads them.

    - `writer`: sends bytes to the client
    - `drain`: waits until the client has read most of the bytes that were sent
    - `unsent`: limits how many large results of one person may wait to be read, so that they do not fill the memory
    """

    def __init__(
        self, writer: asyncio.StreamWriter, drain: Callable[[], Awaitable[None]], unsent: PersonalLimit
    ) -> None:
        self._writer = writer
        self._drain = drain
        self._unsent = unsent

    def notify(self, reply: Reply) -> None:
        """Send the notices of `reply`, such as the privacy guarantee."""
        for sentence in reply.notices:
            self._writer.write(messages.notice(sentence))

    def send_columns(self, columns: Sequence[ResultColumn], formats: Sequence[int], *, or_none: bool = False) -> None:
        """Send the names and types of a result's columns (the message RowDescription).

        `formats` says for each column whether its cells are sent as text (0) or in binary form (1). A single number
        stands for all columns, and an empty sequence means text. If there are no columns and `or_none` is set, the
        message NoData is sent instead.
        """
        if not columns and or_none:
            self._writer.write(messages.NO_DATA)
            return
        fields = [
            Field(column.name, column.type, SIZES.get(column.type, -1), format_of(formats, place))
            for place, column in enumerate(columns)
        ]
        self._writer.write(messages.row_description(fields))

    async def send_rows(self, result: Result, rows: Sequence[Sequence[object]], formats: Sequence[int]) -> None:
        """Send `rows`, some or all rows of `result`.

        `formats` says for each column whether its cells are sent as text (0) or in binary form (1). A single number
        stands for all columns, and an empty sequence means text. Raises `TooManyRequests` if too many large results of
        the person have not been read yet.
        """
        types = [column.type for column in result.columns]

        def encode_row(row: Sequence[object]) -> bytes:
            """Return the message of the protocol that carries one row of the result (DataRow).

            The function around this one has the variables `types`, the PostgreSQL types of the columns, and `formats`,
            which says whether the cells of each column are sent as text (0) or in binary form (1).
            """
            cells = zip(row, types, strict=True)
            return messages.data_row(
                [encode(value, type_, format_of(formats, place)) for place, (value, type_) in enumerate(cells)]
            )

        await self.send_each(rows, encode_row)

    async def copy_rows(self, result: Result, copied: CopyFormat) -> None:
        """Send all rows of `result` as COPY does, in the format `copied` (text, CSV or binary).

        The bytes before the first row are sent together with that row, because PostgreSQL does so and drivers expect
        it. Raises `TooManyRequests` if too many large results of the person have not been read yet.
        """
        is_binary = copied.form == "binary"
        self._writer.write(messages.copy_out(len(result.columns), is_binary=is_binary))
        pending, encode_row = encode_header(copied, result.columns), row_encoder(copied, result)

        def encode_next(row: Sequence[object]) -> bytes:
            """Return the message of the protocol that carries the next row of a COPY (CopyData).

            The function around this one has two variables: `encode_row` turns a row into bytes, and `pending` has the
            bytes that COPY sends before any row, with which the first row's message begins.
            """
            nonlocal pending
            data, pending = pending + encode_row(row), b""
            return messages.copy_data(data)

        await self.send_each(result.rows, encode_next)
        if last := pending + (BINARY_TRAILER if is_binary else b""):
            self._writer.write(messages.copy_data(last))
        self._writer.write(messages.COPY_DONE)

    async def send_each(
        self, rows: Sequence[Sequence[object]], encode_row: Callable[[Sequence[object]], bytes]
    ) -> None:
        """Send `rows`, each as the bytes that `encode_row` returns for it.

        More than 500 rows are sent 500 at a time, each time after the client has read most of the rows before. Raises
        `TooManyRequests` if too many large results of the person have not been read yet.
        """
        is_large = len(rows) > _ROWS_AT_ONCE
        with self._unsent.counting(current_person.get()) if is_large else contextlib.nullcontext():
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                for row in rows[begin : begin + _ROWS_AT_ONCE]:
                    self._writer.write(encode_row(row))
                if is_large:
                    await self._drain()
                    await asyncio.sleep(0)


def format_of(formats: Sequence[int], place: int) -> int:
    """Return the format of the parameter or column number `place` (counted from 0): 0 for text, 1 for binary.

    `formats`, as the protocol sends it, has one number for each parameter or column, or a single number for all
    parameters or columns, or no number if all are text.
    """
    if not formats:
        return 0
    return formats[0] if len(formats) == 1 else formats[place] if place < len(formats) else 0
