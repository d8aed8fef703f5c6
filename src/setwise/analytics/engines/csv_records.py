"""CSV bytes to whole records, such that a damaged line loses itself and nothing else.

The format is RFC 4180, strictly. A line ends at a line feed; a carriage return before it belongs to the line end only
in files whose lines end so, and is data everywhere else. A cell is free of quotes, or stands in quotes as a whole with
its own quotes doubled, and may then hold separators and line ends. A record has as many cells as there are columns. Of
a record that is not well-formed the first line is lost, and reading goes on with the next line.

Why lines decide. A well-formed record has an even number of quotes, and a place is inside quotes exactly when an odd
number of them stands before it. So a record of several lines begins at a line with an odd number of quotes and ends at
the *next* such line. An odd line is tried together with the lines up to the next odd one; unless these are one
well-formed record, the first line alone is lost.

The `csv_*` modules import nothing else of Setwise, because Spark sends them to its executors.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

LF, CR, QUOTE = b'\n\r"'

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the records of a file are written, and how much of it is held at a time, in bytes."""

    width: int
    """Cells of a record."""
    separator: int
    """The byte between cells."""
    crlf: bool
    """Whether a carriage return before a line feed belongs to the line end."""
    block: int = 2**23
    """What is read at a time."""
    step: int = 2**16
    """What is read first to find the end of a record that a block does not hold; then twice as much each time."""
    longest: int = 2**26
    """The longest record; a longer one is lost, wherever blocks begin: the rows of others move them."""


class Records:
    """The records of a file, which is read forwards once, and a second time where records cross blocks."""

    def __init__(self, open_file: Callable[[], BinaryIO], start: int, layout: Layout) -> None:
        self._open = open_file
        self._start = start
        self._layout = layout
        separator = re.escape(bytes([layout.separator]))
        self._cell = re.compile(rb'"(?:[^"]|"")*"|[^' + separator + rb'"\n]+')

    def blocks(self) -> Iterator[tuple[bytes, bool]]:
        """Yield (bytes, settled) of whole lines; what is settled holds nothing but well-formed records."""
        layout = self._layout
        with _Forward(self._open) as file, _Forward(self._open) as ahead:
            file.skip_to(self._start)
            rest = b""  # the beginning of a line
            while True:
                read = file.read(layout.block)
                block = rest + read
                if not block:
                    return
                if not read and block[-1] != LF:
                    block += b"\n"
                cut = block.rfind(b"\n") + 1
                if cut == 0:
                    rest = block if len(block) <= layout.longest else self._after_long_line(block, file, ahead)
                    continue
                whole, rest = block[:cut], block[cut:]
                if self._plain(whole):
                    yield whole, False
                    continue
                kept, opened = self.kept(whole)
                end = None if opened is None else self._end(block[opened:], file, ahead)
                if opened is not None and end is not None:
                    kept, _ = self.kept(whole[:opened])
                if kept:
                    yield kept, True
                if opened is not None and end is not None:
                    rest = b""
                    if end <= layout.longest:
                        record = block[opened:] + file.read(end - (len(block) - opened))
                        yield self._requoted(record if record.endswith(b"\n") else record + b"\n"), True
                    else:
                        file.skip_to(file.place + end - (len(block) - opened))

    def kept(self, block: bytes) -> tuple[bytes, int | None]:
        """Return the lines that are records, and where an odd line begins that this block does not settle.

        The lines after that one are judged as if it were lost.
        """
        if not block:
            return b"", None
        lines = _Lines(np.frombuffer(block, np.uint8), self._layout)
        keep, bare, opened = lines.records()
        starts = np.concatenate(([0], lines.ends[:-1]))
        kind = (keep * (1 + bare)).astype(np.int8)  # 0 lost, 1 as it is, 2 to be put in quotes
        changes = np.flatnonzero(np.diff(np.concatenate(([0], kind, [0]))))
        pieces = []
        for first, last in pairwise(changes):
            if kind[first]:
                piece = block[starts[first] : lines.ends[last - 1]]
                pieces.append(piece if kind[first] == 1 else self._requoted(piece))
        return b"".join(pieces), None if opened is None else int(starts[opened])

    def _plain(self, block: bytes) -> bool:
        """Whether every line is a record of its own, if its number of cells is right."""
        if len(block) > self._layout.longest or b'"' in block:
            return False
        returns = block.count(b"\r")
        return returns == 0 or (self._layout.crlf and returns == block.count(b"\r\n"))

    def _end(self, begun: bytes, file: "_Forward", ahead: "_Forward") -> int | None:
        """Return the length of the well-formed record that begins with these bytes and goes on in the file, or None."""
        return record_length(chain([begun], ahead.pieces(file.place, self._layout)), self._layout)

    def _after_long_line(self, begun: bytes, file: "_Forward", ahead: "_Forward") -> bytes:
        """Skip a line that is too long to be held, or the record it begins, and return what was read after it."""
        end = self._end(begun, file, ahead)
        if end is not None:
            file.skip_to(file.place + end - len(begun))
            return b""
        while read := file.read(self._layout.block):
            _, ended, after = read.partition(b"\n")
            if ended:
                return after
        return b""

    def _requoted(self, records: bytes) -> bytes:
        """Return records in which cells with a carriage return stand in quotes, as the parser of cells expects them."""

        def quoted(found: re.Match[bytes]) -> bytes:
            cell = found[0]
            if cell[0] == QUOTE or b"\r" not in cell:
                return cell
            ended = self._layout.crlf and cell.endswith(b"\r") and records[found.end() : found.end() + 1] == b"\n"
            inner, ending = (cell[:-1], b"\r") if ended else (cell, b"")
            return (b'"' + inner + b'"' if b"\r" in inner else inner) + ending

        return self._cell.sub(quoted, records)


class _Forward:
    """A file that is only read forwards, such as a compressed one; opened when it is first needed."""

    def __init__(self, open_file: Callable[[], BinaryIO]) -> None:
        self._open = open_file
        self._file: BinaryIO | None = None
        self._held = b""  # bytes read but not yet taken, from `place` on
        self.place = 0

    def __enter__(self) -> "_Forward":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer than `size` at the end of the file only."""
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
        """Go to a place; backwards only by reading once more from the start."""
        if place < self.place:
            self._close()
        while self.place < place and self.read(min(2**23, place - self.place)):
            pass

    def pieces(self, place: int, layout: Layout) -> Iterator[bytes]:
        """Yield what stands from a place on; the last piece is kept, because the next search begins within it."""
        self.skip_to(place)
        size = layout.step
        while piece := self.read(size):
            self._held, self.place = piece + self._held, self.place - len(piece)
            yield piece
            self._held, self.place = self._held[len(piece) :], self.place + len(piece)
            size = min(2 * size, layout.block)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._held, self.place = None, b"", 0


class _Lines:
    """The lines of a block, each judged twice: from its start [0], and as the continuation of an open quote [1]."""

    def __init__(self, block: Bytes, layout: Layout) -> None:
        self._layout = layout
        special = np.zeros(256, np.bool_)
        special[[LF, CR, QUOTE, layout.separator]] = True
        places = np.flatnonzero(special[block])
        kinds = block[places]
        feeds = np.flatnonzero(kinds == LF)
        self.ends = places[feeds] + 1
        is_quote = kinds == QUOTE
        quotes = np.cumsum(is_quote, dtype=np.int32)  # up to and including each special byte
        at_end = quotes[feeds]
        before_line = np.concatenate(([0], at_end[:-1])).astype(np.int32)
        self.odd = ((at_end - before_line) & 1).astype(np.bool_)
        lengths = np.diff(feeds, prepend=-1)
        parity = ((quotes - np.repeat(before_line, lengths)) & 1).astype(np.bool_)  # after each special byte
        opens, closes = _roles(block, places[is_quote], layout)
        is_separator, bare = kinds == layout.separator, kinds == CR
        returns = bool(bare.any())
        if layout.crlf and returns:
            bare[bare] = block[places[bare] + 1] != LF
        none = np.zeros(len(feeds), np.bool_)
        self.sound, self.separators, self.bare = [], [], []
        for entered in (False, True) if self.odd.any() else (False,):
            inside = ~parity if entered else parity  # after the byte; a quote that leaves us inside has opened
            wrong = np.zeros(len(kinds), np.bool_)
            wrong[is_quote] = ~np.where(inside[is_quote], opens, closes)
            self.sound.append(_per_line(wrong, feeds) == 0)
            self.separators.append(_per_line(is_separator & ~inside, feeds))
            self.bare.append(_per_line(bare & ~inside, feeds) > 0 if returns else none)

    def records(self) -> tuple[Flags, Flags, int | None]:
        """Return the lines of records, those of them with a bare return in their record, and the odd line left open."""
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
        # Of a run of odd lines in which each could end a record of the one before, every other one begins a record.
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
    """Return how long the well-formed record is that begins with the first of the bytes, or None if there is none."""
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


def _in_context(pieces: Iterable[bytes]) -> Iterator[tuple[Bytes, int, int]]:
    """Yield (block, first, last): bytes to judge, one byte before them and two after; line feeds stand at both ends."""
    before, rest = b"\n", b""
    for piece in chain(pieces, [b"\n\n\n"]):
        block = before + rest + piece
        last = len(block) - 2
        if last > 1:
            yield np.frombuffer(block, np.uint8), 1, last
            before, rest = block[last - 1 : last], block[last:]
        else:
            rest = block[1:]


def _per_line(flags: Flags, feeds: Places) -> npt.NDArray[np.int32]:
    """Return how many of the special bytes of each line are flagged."""
    return np.diff(np.cumsum(flags, dtype=np.int32)[feeds], prepend=np.int32(0))


def _roles(block: Bytes, quotes: Places, layout: Layout) -> tuple[Flags, Flags]:
    """Return which quotes may open a cell, and which may close one; a doubled quote closes and opens again."""
    before, after = block[quotes - 1], block[quotes + 1]
    opens = (before == layout.separator) | (before == LF) | (before == QUOTE)
    opens |= quotes == 0  # a block begins with a line
    closes = (after == layout.separator) | (after == LF) | (after == QUOTE)
    if layout.crlf:
        ended = np.flatnonzero(after == CR)
        closes[ended] |= block[quotes[ended] + 2] == LF
    return opens, closes
