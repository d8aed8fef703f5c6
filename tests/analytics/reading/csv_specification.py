"""The rule for CSV as a plain state machine: the specification that `csv_records` must equal."""

Record = tuple[bytes | None, ...]


def read(
    data: bytes,
    width: int,
    *,
    separator: bytes = b",",
    quote: bytes = b'"',
    crlf: bool = False,
    longest: int = 2**62,
) -> list[Record]:
    """Return the records of what stands after the header; an empty cell is None."""
    if data and not data.endswith(b"\n"):
        data += b"\n"
    records, place = [], 0
    while place < len(data):
        found = _record(data, place, separator, quote, crlf)
        if found is None or len(found[0]) != width:
            place = data.index(b"\n", place) + 1  # the first line alone is lost
            continue
        cells, end = found
        if end - place <= longest:
            records.append(tuple(cell or None for cell in cells))
        place = end
    return records


def _record(data: bytes, place: int, separator: bytes, mark: bytes, crlf: bool) -> tuple[list[bytes], int] | None:
    """Return the cells of the record that begins here and the place after it, or None if none is well-formed."""
    cells = []
    while True:
        if data[place : place + 1] == mark:
            cell, place = b"", place + 1
            while True:
                quote = data.find(mark, place)
                if quote < 0:
                    return None
                cell, place = cell + data[place:quote], quote + 1
                if data[place : place + 1] != mark:
                    break
                cell, place = cell + mark, place + 1
        else:
            start = place
            while data[place : place + 1] not in (separator, b"\n", mark, b""):
                place += 1
            cell = data[start:place]
            if crlf and data[place : place + 1] == b"\n" and cell.endswith(b"\r"):
                cell, place = cell[:-1], place - 1
        cells.append(cell)
        if crlf and data[place : place + 2] == b"\r\n":
            place += 1
        after, place = data[place : place + 1], place + 1
        if after == b"\n":
            return cells, place
        if after != separator:
            return None
