"""Guesses of the encoding of a text file, from how plausible its words are in each encoding.

Bytes do not tell their encoding: 0x94 is ö in cp850, î in mac_roman and a quotation mark in cp1252. So a guess comes
with sample words as each encoding reads them, and the data holder chooses. The words are cells of the file, so they are
shown to its data holder alone, and a query never uses the guess.
"""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from shlex import join

from setwise.analytics.engines.csv_format import MARKS, UTF_16, CsvFormat, codec_name
from setwise.analytics.engines.files import unreadable_file
from setwise.analytics.engines.object_store import TableFile

_CANDIDATES = (
    *("cp1252", "latin-1", "iso8859-15", "cp1250", "iso8859-2", "cp850", "mac_roman", "cp437", "cp852", "mac_latin2"),
    *("cp1254", "cp1257", "cp1251", "koi8-r", "cp866", "iso8859-5", "cp1253", "iso8859-7", "cp1255", "cp1256"),
)
"""The encodings that are tried. Of those that read all words alike, the first is proposed."""
_BLOCK = 2**22
"""Bytes that are read at a time."""
_ASCII = bytes(range(128))
_WORD = re.compile(rb"[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")
_MOST_WORDS = 2_000
"""Most distinct words by which encodings are compared."""
_SHOWN_WORDS = 3
_SHOWN_ENCODINGS = 3
_USUAL_LETTERS = frozenset("éèàáíóúñçäöüßêôâîûëïãõåæøœоеаинтсрвлкмдпуяαεηιοντσςρπκλυ")
_OTHER_LETTERS = frozenset("łąęśćźżńčšžěřůýťďňőűăâșțşţđğıİģķļņūīāēėįų")
_LONGEST_UNIT = 3
"""The most characters of a unit that begins with a micro sign, such as that of micrograms."""
_OTHER_SCRIPTS = frozenset({"CYRILLIC", "GREEK", "HEBREW", "ARABIC"})
_SIGNS = frozenset("’‘“”„–—…•·€£¥°§´`«»±²³½¼¾©®\xa0")
"""Signs that stand beside words or numbers, but not within a word; the apostrophe also does."""


@dataclass(frozen=True, slots=True)
class EncodingGuess:
    """An `encoding` that reads every byte of a file, and some `words` of the file as this encoding reads them."""

    encoding: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingScan:
    """What the bytes of a text file show about its encoding.

    - `is_utf8` says that most lines with bytes beyond ASCII are UTF-8, or that there are no such lines.
    - `utf_16` is "utf-16", or a variant of it, if the first bytes of the file show it; else "".
    - `guesses` are encodings of one byte per character that read every byte of the file, the most plausible first.
      Encodings that read all words alike are listed once. Empty if `is_utf8`, or if `utf_16` is not "".
    """

    is_utf8: bool
    utf_16: str = ""
    guesses: tuple[EncodingGuess, ...] = ()

    @property
    def encoding(self) -> str:
        """The most plausible encoding of the file.

        It is the variant of UTF-16 that the first bytes of the file show, or else UTF-8 if most lines are valid UTF-8,
        or else the most plausible encoding of one byte per character. It is UTF-8 also if no encoding reads every byte.
        """
        return self.utf_16 or ("utf-8" if self.is_utf8 or not self.guesses else self.guesses[0].encoding)

    def choices(self, write: Callable[[Sequence[str]], str] = join) -> str:
        """Return a phrase that offers the guessed encodings; "" if there are no guesses.

        For each guess, the phrase has the option --encoding that declares it, and words of the file as the encoding
        reads them. `write` turns an option into text, by default for the command line.
        """
        readings = [f"{write(['--encoding', guess.encoding])} reads {', '.join(guess.words)}" for guess in self.guesses]
        if not readings:
            return ""
        return (
            f"{'; '.join(readings)}; the file itself does not tell its encoding: take the one whose words are right, "
            "or convert the file to UTF-8 if none is"
        )


def scan_encoding(file: TableFile, form: CsvFormat) -> EncodingScan:
    """Return what the bytes of `file` show about its encoding; `form` says how the file is compressed.

    Raises: `UnsuitableTable` if the file cannot be opened.
    """
    try:
        opened = form.decompress(file.open("rb"), file.name)
    except OSError:
        raise unreadable_file(file) from None
    right = wrong = 0
    high_bytes: set[int] = set()
    words: Counter[bytes] = Counter()
    with opened:
        block = opened.read(_BLOCK)
        if block[:2] in MARKS:
            return EncodingScan(is_utf8=False, utf_16="utf-16")
        if block[:1000].count(b"\0") > len(block[:1000]) // 3:
            return EncodingScan(is_utf8=False, utf_16="utf-16-be" if block[:1] == b"\0" else "utf-16-le")
        while block:
            if not block.isascii():
                high_bytes.update(set(block.translate(None, _ASCII)))
                for line in block.split(b"\n")[1:-1] or [block]:
                    if line.isascii():
                        continue
                    valid = _is_utf8(line)
                    right, wrong = right + valid, wrong + (not valid)
                    if not valid:
                        words.update(word for word in _WORD.findall(line) if word in words or len(words) < _MOST_WORDS)
            block = opened.read(_BLOCK)
    if wrong <= right:
        return EncodingScan(is_utf8=True)
    return EncodingScan(is_utf8=False, guesses=_ranked(words, frozenset(high_bytes)))


def is_decodable(file: TableFile, form: CsvFormat) -> bool:
    """Return whether every byte of a text file is text in the encoding that `form` states.

    UTF-16 is not checked, and counts as decodable. So does a file that cannot be decompressed, because the reader of
    the file reports that error.
    """
    name = codec_name(form.encoding)
    if name in UTF_16:
        return True
    decoder = codecs.getincrementaldecoder(name)()
    try:
        with form.decompress(file.open("rb"), file.name) as opened:
            while block := opened.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except OSError:
        return True
    return True


def _is_utf8(line: bytes) -> bool:
    """Return whether the bytes of a line are valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ranked(words: Counter[bytes], high_bytes: frozenset[int]) -> tuple[EncodingGuess, ...]:
    """Return the most plausible encodings that read every one of `high_bytes`, the most plausible first.

    `high_bytes` are all bytes beyond ASCII in the file. `words` maps words of the file that have bytes beyond ASCII to
    how often they occur. Each encoding comes with some of these words as it reads them.
    """
    readings: dict[tuple[str, ...], tuple[float, str]] = {}
    for encoding in _CANDIDATES:
        try:
            bytes(sorted(high_bytes)).decode(encoding)
        except UnicodeDecodeError:
            continue
        decoded = tuple(word.decode(encoding) for word in words)
        score = sum(map(_plausibility, decoded)) / max(1, len(decoded))
        if len(high_bytes) == 1 and any(_script(letter) in _OTHER_SCRIPTS for word in decoded for letter in word):
            score -= 1.0  # one letter is no sign of another script in a file of Latin letters
        if decoded not in readings:
            readings[decoded] = (score, encoding)
    best = [encoding for _, encoding in sorted(readings.values(), key=lambda each: -each[0])[:_SHOWN_ENCODINGS]]
    shown = _varied(words, best)
    return tuple(EncodingGuess(encoding, tuple(_printable_word(word, encoding) for word in shown)) for encoding in best)


def _varied(words: Counter[bytes], encodings: Sequence[str]) -> list[bytes]:
    """Return a few of `words`, as bytes, that show best how `encodings` differ.

    The data holder sees them in each encoding, and recognises the right one. `words` maps each word of the file to how
    often it occurs. A word comes first if the encodings read it in more different ways; among words that are equal in
    this, the more frequent one does. A word is taken only if it has a byte beyond ASCII that no word taken before has.
    """
    shown: list[bytes] = []
    seen: set[int] = set()
    frequent = [word for word, _ in words.most_common()]
    for word in sorted(frequent, key=lambda word: -len({word.decode(encoding) for encoding in encodings})):
        new = set(word.translate(None, _ASCII)) - seen
        if new and len(shown) < _SHOWN_WORDS:
            shown.append(word)
            seen |= new
    return shown


def _printable_word(word: bytes, encoding: str) -> str:
    """Return the bytes `word` as text in `encoding`, with the character U+FFFD for each character that does not print.

    For example, control characters are replaced, because a terminal would obey them.
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in word.decode(encoding))


def _plausibility(word: str) -> float:
    """Return how plausible a decoded word is: the mean plausibility of its characters beyond ASCII.

    The caller compares encodings by this number. The number is 1 if all of these characters are usual letters. It can
    be negative, for example if they are signs or capitals within the word.
    """
    marks = [_character_plausibility(word, place) for place, character in enumerate(word) if character > "\x7f"]
    return sum(marks) / max(1, len(marks))


def _character_plausibility(word: str, place: int) -> float:
    """Return how plausible a character of `word` is: 1 for a usual letter, less for other characters.

    `place` is the index of the character. The result is negative if the character hints at a wrong encoding, such as a
    sign or a capital within a word.
    """
    character = word[place]
    before, after = word[max(0, place - 1) : place], word[place + 1 : place + 2]
    if character in "\u00aa\u00ba\u00b5":  # ordinal signs stand at the end, as in 1\u00ba, and micro at the beginning
        if character == "\u00b5" and len(word) <= _LONGEST_UNIT and not before:
            return 1.0  # as in \u00b5g
        return -1.0 if (before if character == "\u00b5" else after).isalpha() else 0.3
    if not character.isalpha():
        if character == "’" and before.isalpha() and after.isalpha():
            return 0.5
        if character in _SIGNS:
            return -1.0 if before.isalpha() and after.isalpha() else 0.3
        return -2.0
    is_other = not _OTHER_LETTERS.isdisjoint((character, character.lower()))
    score = 1.0 if character.lower() in _USUAL_LETTERS else 0.9 if is_other else 0.4
    if character.isupper() and before.islower():
        score -= 2.0
    if character.islower() and before.isupper() and after.isupper():
        score -= 1.0
    if character.islower() and not before and after.isupper():
        score -= 1.0
    if any(_script(other) != _script(character) for other in word if other.isalpha()):
        score -= 2.0
    # No language writes three Latin letters with accents in a row, but words of another script consist of such bytes.
    if _script(character) == "LATIN" and re.search(r"[^\x00-\x7f]{3}", word[max(0, place - 2) : place + 3]):
        score -= 0.7
    # Beside numbers stand signs such as \u20ac and \u00b0, and hardly a letter alone.
    is_alone = len(word) <= 2 and all(other > "\x7f" for other in word)
    return min(score, 0.2 * score) if is_alone else score


@cache
def _script(letter: str) -> str:
    """Return the script of a letter, such as LATIN or CYRILLIC: the first word of the letter's Unicode name."""
    return unicodedata.name(letter, "?").partition(" ")[0]
