"""CSV bytes split into records, in such a way that a damaged record loses only its first line.

The format is RFC 4180, strictly. A line ends at a line feed; a carriage return before it belongs to the line end only
in files whose lines end in CR LF, and is data everywhere else. A cell is free of quotes, or stands in quotes as a whole
with its own quotes doubled, and may then hold separators and line ends. A record has as many cells as there are
columns. If a record is not well-formed, its first line is lost, and reading goes on with the next line.

Why lines suffice to find records: a well-formed record has an even number of quotes, and a position is inside quotes
exactly if an odd number of quotes stands before it. So a record of several lines begins at a line with an odd number of
quotes and ends at the *next* such line. An odd line is tried together with the lines up to the next odd one; if these
are not one well-formed record, only the first line is lost.

The `csv_*` modules import nothing else of Setwise, because Spark sends them to its executors.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

LF, CR, QUOTE = b'\n\r"'

T = TypeVar("T")
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the records of a CSV file are written, and how many bytes of the file are held in memory.

    - `width` is the number of cells of a record.
    - `separator` is the byte between cells.
    - `crlf` says that a carriage return before a line feed belongs to the line end. Otherwise it is part of a cell.
    - `block` is the number of bytes that are read together.
    - `step` is the number of bytes that are read next if a record does not end in its block. If it still does not end,
      twice as many are read, and so on.
    - `longest` is the greatest number of bytes of a record. Longer records are left out, as malformed records are.
    """

    width: int
    """The number of cells of a record."""
    separator: int
    """The byte that separates cells."""
    crlf: bool
    """Whether a carriage return before a line feed belongs to the line end."""
    block: int = 2**23
    """Bytes that are read at a time."""
    step: int = 2**16
    """Bytes that are read first to find the end of a record beyond a block; doubled with every further read."""
    longest: int = 2**26
    """The most bytes of a record; a longer record is left out.

    The limit does not depend on where blocks begin, because that depends on the rows of others.
    """


class Records:
    """The well-formed records of a CSV file, read in blocks of bytes; other records are left out.

    `open_file` opens the file from its beginning. `start` is the byte offset of the first record. `layout` says how
    records are written.
    """

    def __init__(self, open_file: Callable[[], BinaryIO], start: int, layout: Layout) -> None:
        self._open = open_file
        self._start = start
        self._layout = layout
        separator = re.escape(bytes([layout.separator]))
        self._cell = re.compile(rb'"(?:[^"]|"")*"|[^' + separator + rb'"\n]+')

    def blocks(self, parse: Callable[[bytes], T | None], parse_kept: Callable[[bytes], T]) -> Iterator[T]:
        """Yield the results of parsing the file's well-formed records, block by block in the order of the file.

        The functions `parse` and `parse_kept` both parse CSV bytes. A block of whole lines is given to `parse`, which
        must return None if a line has a wrong number of cells, or a cell is not UTF-8. If it returns None, or quotes or
        carriage returns of the block seem misplaced, the block's malformed records are removed, and the remaining
        records are given to `parse_kept`.
        """
        layout = self._layout
        with _ForwardReader(self._open) as file, _ForwardReader(self._open) as ahead:
            file.skip_to(self._start)
            unfinished = b""  # the beginning of a line whose end was not read yet
            while True:
                read = file.read(layout.block)
                block = unfinished + read
                if not block:
                    return
                if not read and block[-1] != LF:
                    block += b"\n"
                cut = block.rfind(b"\n") + 1
                if cut == 0:
                    unfinished = block if len(block) <= layout.longest else self._after_long_line(block, file, ahead)
                    continue
                whole, unfinished = block[:cut], block[cut:]
                # A misplaced quote could deceive `parse`, so it gets regular blocks only. Removing malformed records
                # takes several times as long as parsing, so it is done only in blocks that seem to have any.
                parsed = parse(whole) if self._is_regular(whole) else None
                if parsed is not None:
                    yield parsed
                    continue
                well_formed, open_at = self.keep_well_formed(whole)
                end = None if open_at is None else self._end(block[open_at:], file, ahead)
                if open_at is not None and end is not None:
                    well_formed, _ = self.keep_well_formed(whole[:open_at])
                if well_formed:
                    yield parse_kept(well_formed)
                if open_at is not None and end is not None:
                    unfinished = b""
                    if end <= layout.longest:
                        record = block[open_at:] + file.read(end - (len(block) - open_at))
                        yield parse_kept(self._add_quotes(record if record.endswith(b"\n") else record + b"\n"))
                    else:
                        file.skip_to(file.place + end - (len(block) - open_at))

    def count_lines(self) -> tuple[int, int]:
        """Return (lines, kept lines): how many lines after the header are not blank, and how many of these are kept.

        The lines of well-formed records are kept; all other lines are left out when the file is read.
        """
        with _ForwardReader(self._open) as file:
            file.skip_to(self._start)
            lines = count_filled_lines(iter(lambda: file.read(self._layout.block), b""))
        kept_lines = count_filled_lines(self.blocks(parse=lambda _: None, parse_kept=lambda records: records))
        return lines, min(lines, kept_lines)

    def keep_well_formed(self, block: bytes) -> tuple[bytes, int | None]:
        """Return (records, position): the well-formed records of `block`, and where an unfinished record may begin.

        `block` is bytes of whole lines. `position` is the byte offset of its last line with an odd number of quotes,
        because a quoted cell may begin there and end after the block. It is None if there is no such line, or if a
        record of the block ends with that line.
        """
        if not block:
            return b"", None
        # Lines after an undecided line are judged as if the record of the undecided line were malformed.
        lines = _Lines(np.frombuffer(block, np.uint8), self._layout)
        keep, bare, opened = lines.records()
        starts = np.concatenate(([0], lines.ends[:-1]))
        kind = (keep * (1 + bare)).astype(np.int8)  # 0: lost, 1: kept unchanged, 2: kept, with quotes to be added
        changes = np.flatnonzero(np.diff(np.concatenate(([0], kind, [0]))))
        pieces = []
        for first, last in pairwise(changes):
            if kind[first]:
                piece = block[starts[first] : lines.ends[last - 1]]
                pieces.append(piece if kind[first] == 1 else self._add_quotes(piece))
        return b"".join(pieces), None if opened is None else int(starts[opened])

    def _is_regular(self, block: bytes) -> bool:
        """Return whether the lines of `block` are well-formed records, as far as quotes and carriage returns show.

        The number of cells of a line is not checked, because Arrow's parser, which gets the block next, detects a wrong
        number. The result is False if a quote in `block` is misplaced, a quoted cell goes on after the block, or a
        carriage return does not end a line. It is also False if the block is longer than a record may be, because one
        of its lines could then be too long.
        """
        if len(block) > self._layout.longest:
            return False
        returns = block.count(b"\r")
        if returns and not (self._layout.crlf and returns == block.count(b"\r\n")):
            return False
        if b'"' not in block:
            return True
        data = np.frombuffer(block, np.uint8)
        # The first quote opens a cell and the second closes it. A doubled quote closes the cell and opens it again.
        quotes = np.flatnonzero(data == QUOTE)
        if len(quotes) % 2:
            return False
        around = np.zeros(256, np.bool_)
        around[[self._layout.separator, LF, QUOTE]] = True
        if not around[data[quotes[0::2] - 1]].all():  # a quote at the start follows the line feed at the block's end
            return False
        around[CR] = True  # a line feed follows it
        return bool(around[data[quotes[1::2] + 1]].all())

    def _end(self, beginning: bytes, file: "_ForwardReader", ahead: "_ForwardReader") -> int | None:
        """Return the length in bytes of the record that begins with the bytes `beginning`; None if it is malformed.

        `beginning` are the last bytes that were read from `file`. If the record does not end in them, the bytes after
        them are read through `ahead`, a second reader of the same file, so that the position of `file` does not move.
        """
        return record_length(chain([beginning], ahead.pieces(file.place, self._layout)), self._layout)

    def _after_long_line(self, beginning: bytes, file: "_ForwardReader", ahead: "_ForwardReader") -> bytes:
        """Skip a line that is too long to be held in memory; return the bytes that were read after its end.

        `beginning` are the bytes of the line that were read so far from `file`, and `ahead` is a second reader of the
        same file. If a well-formed record begins with the line, the whole record is skipped instead, and the result is
        b"". The next read from `file` continues after the returned bytes.
        """
        end = self._end(beginning, file, ahead)
        if end is not None:
            file.skip_to(file.place + end - len(beginning))
            # `file` is now at the record's end
            return b""
        while read := file.read(self._layout.block):
            _, ended, after = read.partition(b"\n")
            if ended:
                return after
        return b""

    def _add_quotes(self, records: bytes) -> bytes:
        """Return CSV `records` with quotes around cells that contain a carriage return, as Arrow's parser requires."""

        def quoted(match: re.Match[bytes]) -> bytes:
            """Return the cell that `match` found, in quotes if it has a carriage return that does not end the line.

            A cell that has quotes already is returned unchanged. A carriage return at the end of the cell ends the line
            if a line feed follows it in the CSV bytes, in files whose lines end in CR LF.
            """
            cell = match[0]
            if cell[0] == QUOTE or b"\r" not in cell:
                return cell
            ended = self._layout.crlf and cell.endswith(b"\r") and records[match.end() : match.end() + 1] == b"\n"
            inner, ending = (cell[:-1], b"\r") if ended else (cell, b"")
            return (b'"' + inner + b'"' if b"\r" in inner else inner) + ending

        return self._cell.sub(quoted, records)


class _ForwardReader:
    """Reader of a file that can only be read forwards, such as a compressed one; the first read opens the file.

    The function `open_file` opens the file from its beginning, and `place` is the byte offset of the next read.
    """

    def __init__(self, open_file: Callable[[], BinaryIO]) -> None:
        self._open = open_file
        self._file: BinaryIO | None = None
        self._held = b""  # bytes that were read from the file but not returned yet; they begin at `place`
        self.place = 0

    def __enter__(self) -> "_ForwardReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end of the file."""
        if self._file is None:
            self._file = self._open()
        pieces, missing = [self._held[:size]], size - len(self._held)
        self._held = self._held[size:]
        while missing > 0 and (piece := self._file.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        read = b"".join(pieces)
        self.place += len(read)
        return read

    def skip_to(self, place: int) -> None:
        """Move to the byte offset `place` of the file, from which the next `read` continues.

        To move backwards, the file is opened again and read from its start.
        """
        if place < self.place:
            self._close()
        while self.place < place and self.read(min(2**23, place - self.place)):
            pass

    def pieces(self, place: int, layout: Layout) -> Iterator[bytes]:
        """Yield the bytes of the file from the byte offset `place` to its end, in pieces of growing length.

        The first piece has `layout.step` bytes. Each next piece is twice as long, up to `layout.block` bytes. The
        caller may stop after any piece. If `place` in a later call lies in the last piece that was yielded, the file is
        not read again from its start.
        """
        self.skip_to(place)
        size = layout.step
        while piece := self.read(size):
            # The position moves past a piece only when the caller asks for the next piece.
            self._held, self.place = piece + self._held, self.place - len(piece)
            yield piece
            self._held, self.place = self._held[len(piece) :], self.place + len(piece)
            size = min(2 * size, layout.block)

    def _close(self) -> None:
        """Close the file, so that the next `read` opens it again and begins at its start."""
        if self._file is not None:
            self._file.close()
        self._file, self._held, self.place = None, b"", 0


class _Lines:
    """The lines of `block`, CSV bytes, as arrays with one entry for each line; the method `records` finds the records.

    - `ends` is the byte position after the line.
    - `odd` is True if the line has an odd number of quotes.
    - `sound` is True if all quotes of the line open or close a cell properly.
    - `separators` is the number of separators outside quotes.
    - `bare` is True if a carriage return outside quotes does not end the line.

    The last three depend on whether a line begins inside a quoted cell, which is not yet known. Each is a list of two
    arrays: one for lines that begin outside a quoted cell, one for lines that begin inside. The second is missing if no
    line is odd, because then no line begins inside.
    """

    def __init__(self, block: Bytes, layout: Layout) -> None:
        self._layout = layout
        special = np.zeros(256, np.bool_)
        special[[LF, CR, QUOTE, layout.separator]] = True
        places = np.flatnonzero(special[block])
        kinds = block[places]
        feeds = np.flatnonzero(kinds == LF)
        self.ends = places[feeds] + 1
        is_quote = kinds == QUOTE
        quotes = np.cumsum(is_quote, dtype=np.int32)  # number of quotes up to and including each special byte
        at_end = quotes[feeds]
        before_line = np.concatenate(([0], at_end[:-1])).astype(np.int32)
        self.odd = ((at_end - before_line) & 1).astype(np.bool_)
        lengths = np.diff(feeds, prepend=-1)
        parity = ((quotes - np.repeat(before_line, lengths)) & 1).astype(np.bool_)  # inside quotes after each byte
        opens, closes = _roles(block, places[is_quote], layout)
        is_separator, bare = kinds == layout.separator, kinds == CR
        returns = bool(bare.any())
        if layout.crlf and returns:
            bare[bare] = block[places[bare] + 1] != LF
        none = np.zeros(len(feeds), np.bool_)
        self.sound, self.separators, self.bare = [], [], []
        for entered in (False, True) if self.odd.any() else (False,):
            inside = ~parity if entered else parity  # inside quotes after the byte: such a quote opens a cell
            wrong = np.zeros(len(kinds), np.bool_)
            wrong[is_quote] = ~np.where(inside[is_quote], opens, closes)
            self.sound.append(_per_line(wrong, feeds) == 0)
            self.separators.append(_per_line(is_separator & ~inside, feeds))
            self.bare.append(_per_line(bare & ~inside, feeds) > 0 if returns else none)

    def records(self) -> tuple[Flags, Flags, int | None]:
        """Return (kept, bare, undecided): two arrays with a flag per line of the block, and one line's index or None.

        - A flag in `kept` is True if the line belongs to a well-formed record. A record with a quoted cell can have
          several lines.
        - A flag in `bare` is True if the line belongs to a kept record that has a carriage return inside a cell without
          quotes. The caller puts quotes around such a cell, because Arrow's parser requires them.
        - `undecided` is the index of the last line with an odd number of quotes, unless a well-formed record ends with
          that line. A quoted cell may begin in that line and end after the block, so the caller must read on. None if
          there is no such line.
        """
        wanted, longest = self._layout.width - 1, self._layout.longest
        starts = np.concatenate(([0], self.ends[:-1]))
        keep = ~self.odd & self.sound[0] & (self.separators[0] == wanted) & (self.ends - starts <= longest)
        bare = keep & self.bare[0]
        odd = np.flatnonzero(self.odd)
        if not len(odd):
            return keep, bare, None
        unsound = np.concatenate(([0], np.cumsum(~self.sound[1])))
        within = np.concatenate(([0], np.cumsum(self.separators[1])))
        a, b = odd[:-1], odd[1:]
        record = self.sound[0][a] & (unsound[b + 1] == unsound[a + 1])
        record &= self.separators[0][a] + within[b + 1] - within[a + 1] == wanted
        # In a run of odd lines that could each end the record of the line before, every second one begins a record.
        place = np.arange(len(record))
        run = np.maximum.accumulate(np.where(record, -1, place)) if len(record) else place
        begins = record & (((place - run) & 1) == 1)
        spanned = np.zeros(len(keep) + 1, np.int8)
        spanned[a[begins]] += 1
        spanned[b[begins] + 1] -= 1
        keep |= np.cumsum(spanned[:-1]).astype(np.bool_)
        returns = np.concatenate(([0], np.cumsum(self.bare[1])))
        long, returned = bool(self.ends[-1] > longest), bool(returns[-1] or self.bare[0].any())
        for start, end in zip(a[begins], b[begins], strict=True) if long or returned else ():
            bare[start : end + 1] = self.bare[0][start] or returns[end + 1] > returns[start + 1]
            if self.ends[end] - starts[start] > longest:
                keep[start : end + 1] = False
        settled = len(begins) > 0 and begins[-1]
        return keep, bare, None if settled else int(odd[-1])


def record_length(pieces: Iterable[bytes], layout: Layout) -> int | None:
    """Return the length in bytes of the first record in `pieces`; None if the record is malformed.

    `pieces` are bytes of a CSV file in order, and begin with the record. A record without exactly `layout.width` cells
    is malformed, too.
    """
    place, quotes_before, separators_before = 0, 0, 0
    for block, first, last in _in_context(pieces):
        quotes = np.flatnonzero(block[first:last] == QUOTE) + first
        feeds = np.flatnonzero(block[first:last] == LF) + first
        feeds = feeds[((np.searchsorted(quotes, feeds) + quotes_before) & 1) == 0]
        end = int(feeds[0]) if len(feeds) else last
        quotes = quotes[quotes < end]
        opens, closes = _roles(block, quotes, layout)
        closing = ((np.arange(len(quotes)) + quotes_before) & 1) == 1
        if not np.where(closing, closes, opens).all():
            return None
        separators = np.flatnonzero(block[first:end] == layout.separator) + first
        inside = (np.searchsorted(quotes, separators) + quotes_before) & 1
        separators_before += int((inside == 0).sum())
        if separators_before >= layout.width:
            return None
        if len(feeds):
            return place + end - first + 1 if separators_before == layout.width - 1 else None
        place += last - first
        quotes_before += len(quotes)
    return None


def count_filled_lines(pieces: Iterable[bytes]) -> int:
    """Return the number of lines that are not blank in `pieces`, the bytes of a file in order.

    A line with only a carriage return is blank. A last line without a line feed is counted like the others.
    """
    lines, before = 0, b"\n\n"
    for piece in pieces:
        block = np.frombuffer(before + piece, np.uint8)
        feeds = np.flatnonzero(block[2:] == LF) + 2
        last, second_last = block[feeds - 1], block[feeds - 2]
        lines += len(feeds) - int(((last == LF) | ((last == CR) & (second_last == LF))).sum())
        before = block[-2:].tobytes()
    return lines + (before[-1] != LF and before != b"\n\r")


def _in_context(pieces: Iterable[bytes]) -> Iterator[tuple[Bytes, int, int]]:
    """Yield (block, first, last): an array of bytes, and the range from `first` to `last` - 1 that is to be examined.

    The caller looks for quotes in the range. Whether a quote opens or closes a cell depends on the bytes beside it, so
    a block also has one byte before its range and two after it; at the ends of the file these are line feeds. The
    ranges cover all bytes of `pieces`, the contents of a file, in order.
    """
    # The bytes beside a quote decide what it means.
    before, remaining = b"\n", b""
    for piece in chain(pieces, [b"\n\n\n"]):
        block = before + remaining + piece
        last = len(block) - 2
        if last > 1:
            yield np.frombuffer(block, np.uint8), 1, last
            before, remaining = block[last - 1 : last], block[last:]
        else:
            remaining = block[1:]


def _per_line(flags: Flags, feeds: Places) -> npt.NDArray[np.int32]:
    """Return, for each line of a block, how many True entries of `flags` belong to the line.

    `flags` has one entry for each special byte (quote, separator or line end) of the block. `feeds` are the indices in
    `flags` of the line feeds, each of which ends a line.
    """
    return np.diff(np.cumsum(flags, dtype=np.int32)[feeds], prepend=np.int32(0))


def _roles(block: Bytes, quotes: Places, layout: Layout) -> tuple[Flags, Flags]:
    """Return (opens, closes): for each quote, whether it may open a quoted cell, and whether it may close one.

    The bytes beside a quote decide: one that opens a cell follows a separator or a line end, and one that closes a cell
    stands before one. A quote next to another quote may do so, too, because a quote within a cell is doubled. `quotes`
    are the positions of the quotes in `block`, and `layout` says how records are written.
    """
    before, after = block[quotes - 1], block[quotes + 1]
    opens = (before == layout.separator) | (before == LF) | (before == QUOTE)
    opens |= quotes == 0  # a block begins with a line
    closes = (after == layout.separator) | (after == LF) | (after == QUOTE)
    if layout.crlf:
        ended = np.flatnonzero(after == CR)
        closes[ended] |= block[quotes[ended] + 2] == LF
    return opens, closes
