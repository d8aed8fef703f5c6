"""Text of SQL statements from PostgreSQL clients: split at semicolons, fill in parameters, translate the dialect.

`as_question` translates a statement into the SQL dialect in which the service answers questions.

Nothing here parses SQL. Regular expressions only tell quoted text and comments from other text. Their time is
proportional to the length of the statement, because they run on the event loop, where a slow expression would delay
every other request.
"""

import re
from collections.abc import Sequence

from setwise.service.postgres.replies import Rejected

LONGEST = 50_000
"""The most characters of a statement with its parameters; the longest catalogue queries of tools have about 10,000."""

OPAQUE = (
    r"(?<!\w)[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'"  # a text with backslash escapes
    r"|'[^']*(?:''[^']*)*(?:'|\Z)"
    r'|"[^"]*(?:""[^"]*)*(?:"|\Z)'
    r"|--[^\n]*"
    r"|/\*.*?(?:\*/|\Z)"
    r"|\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)"
)
"""Pattern of quoted text, quoted names and comments. One that is not closed extends to the end of the statement."""

_SEMICOLON = re.compile(rf"{OPAQUE}|(?P<end>;)", re.DOTALL)
_PARAMETER = re.compile(rf"{OPAQUE}|\$(?P<number>\d{{1,5}})", re.DOTALL)
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[(\s]*([A-Za-z]+)")
_FOR_QUESTIONS = re.compile(
    rf"""(?P<schema>(?:"public"|(?<![\w.])public)\s*\.\s*(?=["\w]))|{OPAQUE}""", re.DOTALL | re.IGNORECASE
)


def check_length(text: str) -> None:
    """Raise `Rejected` if the text of a statement is longer than 50,000 characters (`LONGEST`)."""
    if len(text) > LONGEST:
        raise Rejected("54000", f"a statement may have at most {LONGEST:,} characters, not {len(text):,}")


def split_statements(text: str) -> list[str]:
    """Return the statements in `text`, split at semicolons outside quotes and comments; blank statements are left out.

    >>> split_statements("SELECT ';'; -- no; more")
    ["SELECT ';'"]
    """
    statements: list[str] = []
    begin = 0
    for match in _SEMICOLON.finditer(text):
        if match["end"]:
            statements.append(text[begin : match.start()])
            begin = match.end()
    statements.append(text[begin:])
    return [statement.strip() for statement in statements if without_leading_comments(statement)]


def without_leading_comments(statement: str) -> str:
    """Return a statement without the blanks and comments before its first word, and without a semicolon at its end."""
    leading = _BLANK.match(statement)
    return statement[leading.end() if leading else 0 :].rstrip().rstrip(";").rstrip()


def first_word(statement: str) -> str:
    """Return the first word of a statement in capitals, also if it follows a parenthesis; "" if there is none.

    >>> first_word("(select 1)"), first_word("")
    ('SELECT', '')
    """
    match = _WORD.match(statement)
    return match[1].upper() if match else ""


def parameter_count(text: str) -> int:
    """Return the number of parameters of the statement `text`: the largest number after a $.

    Text in quotes and comments is skipped.

    >>> parameter_count("SELECT '$3', $1, $2")
    2
    """
    return max((int(match["number"]) for match in _PARAMETER.finditer(text) if match["number"]), default=0)


def with_parameters(text: str, values: Sequence[str]) -> str:
    """Return the SQL text with $1, $2, ... outside quotes and comments replaced by `values`, which are SQL literals.

    Raises `Rejected` if a parameter has no value, or if the inserted values have more than 50,000 characters
    (`LONGEST`) in total.
    """
    inserted = 0

    def replaced(match: "re.Match[str]") -> str:
        """Return the text to put in place of `match`: the value of a parameter, or a quoted text or comment unchanged.

        The values of $1, $2, ... are in `values`, an argument of the function around this one. The length of all
        inserted values is checked here, because a value of 1 MiB that is inserted thousands of times would fill the
        memory.
        """
        nonlocal inserted
        if not match["number"]:
            return match[0]
        place = int(match["number"]) - 1
        if not 0 <= place < len(values):
            raise Rejected("08P01", f"parameter ${match['number']} has no value")
        inserted += len(values[place])
        if inserted > LONGEST:
            raise Rejected("54000", f"a statement may have at most {LONGEST:,} characters with its parameters")
        return values[place]

    return _PARAMETER.sub(replaced, text)


def as_question(sql: str) -> str:
    r"""Return the statement `sql` of a PostgreSQL client in the SQL dialect of questions.

    Strings are rewritten, because a backslash in a PostgreSQL string is an ordinary character, but escapes the next
    character in questions. The schema `public` before a table is removed.

    >>> print(as_question(r'''SELECT 1 FROM "public".visits WHERE a = 'it\s' OR a = E'it\'s' OR a = $$it's$$'''))
    SELECT 1 FROM visits WHERE a = 'it\\s' OR a = 'it\'s' OR a = 'it''s'
    """
    return _FOR_QUESTIONS.sub(_rewrite_for_question, sql)


def _rewrite_for_question(match: "re.Match[str]") -> str:
    """Return the text that replaces `match` in a PostgreSQL statement, so that the SQL dialect of questions reads it.

    `match` is one of three kinds of text. A quoted string gets its backslashes and quotes rewritten, the schema name
    `public` with its dot is removed, and a quoted name or a comment stays unchanged.
    """
    quoted = match[0]
    if match["schema"]:
        return ""
    if (tag := match["tag"]) is not None:
        border = len(tag) + 2
        return "'" + quoted[border:-border].replace("'", "''").replace("\\", "\\\\") + "'"
    if quoted[0] in "eE":
        return quoted[1:]
    return quoted.replace("\\", "\\\\") if quoted[0] == "'" else quoted
