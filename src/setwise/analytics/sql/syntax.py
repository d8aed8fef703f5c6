"""SQL text parsed by sqlglot into a syntax tree, the OPTIONS clause, the dialect, escapes, and names for refusals.

The dialect accepts GoogleSQL, PostgreSQL and DuckDB where they agree: names in backticks or double quotes, text in
single quotes with a doubled or backslash-escaped quote, and `::` as a cast. In texts, GoogleSQL's escapes such as a
doubled backslash are read; a backslash before any other character stands for itself, as in PostgreSQL.
"""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.bigquery import BigQueryParser

from setwise.errors import BadRequest, InvalidParameter

LONGEST = 10_000
"""The most characters of a statement."""

_CLAUSE = "DIFFERENTIAL_PRIVACY"

SPENDING = ("epsilon", "delta", "within")
"""The options that state the budget. GoogleSQL has no `within`."""

OPTIONS = (*SPENDING, "privacy_unit_column", "max_groups_contributed")
"""The options that WITH DIFFERENTIAL_PRIVACY OPTIONS (...) may set, by GoogleSQL's names."""


class SqlDialect(BigQuery):
    """The dialect in which sqlglot parses statements: BigQuery's SQL, but "x" is a name and not text.

    By default sqlglot rewrites functions that it knows. Here it does not, so that every call keeps its name and all its
    arguments. UNION without ALL or DISTINCT means UNION DISTINCT, as in standard SQL.
    """

    UNNEST_COLUMN_ONLY = False
    SET_OP_DISTINCT_BY_DEFAULT: dict[Any, bool | None] = dict.fromkeys((exp.Except, exp.Intersect, exp.Union), True)

    class Tokenizer(BigQuery.Tokenizer):  # noqa: D106 - what sqlglot looks for
        KEYWORDS: ClassVar[dict[str, Any]] = {**BigQuery.Tokenizer.KEYWORDS, "//": TokenType.DIV}
        QUOTES: ClassVar[list[Any]] = ["'", "'''"]
        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]

    class Parser(BigQueryParser):  # noqa: D106 - what sqlglot looks for
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FACTOR: ClassVar[dict[Any, Any]] = {**BigQueryParser.FACTOR, TokenType.DIV: exp.IntDiv}

        def _parse_column(self) -> exp.Expr | None:
            """Read a column reference, and return its node.

            A name in double quotes is one name, as in "Kunde Nr.", but `t.x` in backticks is a table and a column.
            """
            start = self._index
            column = super()._parse_column()
            quoted = [token for token in self._tokens[start : self._index] if token.token_type is TokenType.IDENTIFIER]
            if any("." in token.text and self.sql[token.start] == '"' for token in quoted):
                self._retreat(start)
                column = super(BigQueryParser, self)._parse_column()
            return column

        def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
            """Read one argument of a function, and return its node; DISTINCT and the values after it are one argument.

            In COUNT(DISTINCT x, contribution_bounds_per_group => (0, 3)), sqlglot takes the name before => for a second
            value of DISTINCT. Here the values end before this name.
            """
            argument = super()._parse_lambda(alias)
            named = self._curr is not None and self._curr.token_type is TokenType.FARROW
            if named and isinstance(argument, exp.Distinct) and len(argument.expressions) > 1:
                argument.set("expressions", argument.expressions[:-1])
                self._retreat(self._index - 2)  # back to the comma before the name
            return argument


def parse(text: str) -> tuple[exp.Expr, dict[str, str], bool]:
    """Return (syntax tree, options, whether it is an EXPLAIN) of the SQL statement `text`.

    The options are those of the statement's OPTIONS clause, as text: {"epsilon": "1"}.
    Raises: `InvalidParameter` if the text is not one SQL statement of at most `LONGEST` characters.
    """
    if not isinstance(text, str):
        raise InvalidParameter(f"a SQL query must be text, not {type(text).__name__}")
    try:
        return _parse_as_written(text)
    except InvalidParameter:
        quoted = _BRACKETED.sub(lambda match: match[0] if match[1] is None else f'"{match[1]}"', text)
        if quoted != text:  # [x] is a name in SQL Server; a statement with an array or an element can be read as it is
            with suppress(InvalidParameter):
                return _parse_as_written(quoted)
        raise


_BRACKETED = re.compile(r"""'(?:[^'\\]|\\.)*'|(?<![\w\])"`])\[([A-Za-z_][\w $]*)\]""")
"""A text in quotes, or a name in brackets (group 1)."""


def _parse_as_written(text: str) -> tuple[exp.Expr, dict[str, str], bool]:
    """Return (syntax tree, options, whether it is an EXPLAIN) of the SQL statement `text`, as `parse` does.

    The options are those of the statement's OPTIONS clause, as text: {"epsilon": "1"}. A name in brackets, such as [x]
    in SQL Server, is not read as a name here; names in double quotes or backticks are.
    Raises: `InvalidParameter` if the text is not one SQL statement of at most `LONGEST` characters.
    """
    if len(text) > LONGEST:
        raise InvalidParameter(f"a SQL query must be at most {LONGEST:,} characters long, not {len(text):,}")
    dialect = SqlDialect()
    try:
        text = _keep_backslashes(text, dialect)
        tokens = dialect.tokenize(text)
        explain = bool(tokens) and tokens[0].token_type is TokenType.COMMAND and tokens[0].text.upper() == "EXPLAIN"
        if explain:
            text = text[tokens[0].end + 1 :]
            tokens = dialect.tokenize(text)
            if tokens and tokens[0].text.upper() == "ANALYZE":
                raise unsupported("EXPLAIN ANALYZE", "write EXPLAIN, which runs nothing")
        _mark_tops(tokens)
        tokens, options = _without_clause(tokens)
        parsed = dialect.parser().parse(tokens, text)
        # A comment after the last semicolon is parsed as a statement of its own.
        statements = [each for each in parsed if each is not None and type(each) is not exp.Semicolon]
    except ParseError as error:
        problem = error.errors[0] if error.errors else {}
        words = quote_reserved_words(text)[1]
        if words:
            quoted = " and ".join(f'"{word}"' for word in words)
            raise InvalidParameter(
                f"{', '.join(words)} {'is a word' if len(words) == 1 else 'are words'} of SQL itself: write a column "
                f"of that name in double quotes, as {quoted}"
            ) from None
        near = f" near {problem['highlight']!r}, line {problem['line']}" if problem.get("highlight") else ""
        raise InvalidParameter(f"the SQL cannot be read{near}: {_describe_error(problem.get('description'))}") from None
    except InvalidParameter:
        raise
    except ValueError:  # sqlglot raises it for a named argument whose name is empty
        raise InvalidParameter("the SQL cannot be read: it is not SQL") from None
    except SqlglotError:
        raise InvalidParameter("the SQL cannot be read: a quote or a comment is not closed") from None
    if not statements:
        raise InvalidParameter("the question is empty: write one SELECT")
    if len(statements) != 1:
        raise InvalidParameter(f"one SELECT is asked at a time, not {len(statements)} statements: leave out the others")
    return statements[0], options, explain


_RESERVED = frozenset((
    "all", "and", "as", "asc", "between", "case", "cross", "desc", "distinct", "else", "end", "except", "exists",
    "fetch", "for", "from", "full", "group", "having", "in", "inner", "intersect", "into", "is", "join", "left",
    "like", "limit", "natural", "not", "offset", "on", "or", "order", "right", "select", "set", "table", "then",
    "union", "using", "values", "when", "where", "window", "with",
))  # fmt: skip
"""Words of SQL that columns may have for names only in double quotes, or that some databases read as words of SQL."""

_BEFORE_COLUMNS = frozenset(
    (
        *("SELECT", "DISTINCT", "GROUP BY", "ORDER BY", "PARTITION BY", "WHERE", "HAVING", "AND", "OR", "NOT", "ON"),
        *("WHEN", "THEN", "ELSE", "AS", ",", "(", ".", "=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/"),
    )
)
_AFTER_COLUMNS = frozenset(
    (
        *("FROM", "AS", "IS", "IN", "NOT", "BETWEEN", "LIKE", "DESC", "ASC", "GROUP BY", "ORDER BY", "HAVING"),
        *("LIMIT", "THEN", "ELSE", "END", "AND", "OR"),
        *(",", ")", ";", "", "=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/"),
    )
)
"""What stands before and after the name of a column; the empty text is the end of the statement."""


def quote_reserved_words(text: str) -> tuple[str, list[str]]:
    """Return (text, words): the SQL `text` with reserved words that name columns in double quotes, and these words.

    A word is taken for a column by the words before and after it: in SELECT select, COUNT(*) the second word is a
    column. The list is empty if there is no such word, or if the text with these quotes cannot be parsed either.
    """
    dialect = SqlDialect()
    try:
        tokens = dialect.tokenize(text)
    except SqlglotError:  # a quote or a comment is not closed
        return text, []
    quoted = (TokenType.IDENTIFIER, TokenType.STRING)
    written = ["'" if token.token_type in quoted else token.text.upper() for token in tokens]
    columns = [
        token
        for token, previous, following in zip(tokens, ["", *written], [*written[1:], ""], strict=False)
        if token.text.lower() in _RESERVED
        and token.token_type not in quoted
        and previous in _BEFORE_COLUMNS
        and following in _AFTER_COLUMNS
    ]
    for token in reversed(columns):
        text = f'{text[: token.start]}"{token.text}"{text[token.end + 1 :]}'
    try:
        dialect.parser().parse(_without_clause(dialect.tokenize(text))[0], text)
    except (SqlglotError, ValueError, BadRequest):
        return text, []
    return text, list(dict.fromkeys(token.text for token in columns))


_ESCAPES = re.compile(
    r"""\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|[\\'"`?abfnrtv])|\\""", re.IGNORECASE
)
"""GoogleSQL's escapes in texts (group 1 is the escaped character), or a backslash that begins no escape."""

_ESCAPE_BY_BACKSLASH = re.compile(r"(?i)\b(ESCAPE\s*)'\\'(?!')")


def _keep_backslashes(text: str, dialect: SqlDialect) -> str:
    """Return the SQL `text` with doubled backslashes in text constants, so that the parser of `dialect` keeps them.

    A backslash that begins one of GoogleSQL's escapes, such as the escape for a tab, is not doubled. A backslash before
    an underscore begins no such escape, and is doubled.
    """
    if "\\" not in text:
        return text
    text = _ESCAPE_BY_BACKSLASH.sub(r"\1'\\\\'", text)
    for token in reversed(dialect.tokenize(text)):
        if token.token_type is TokenType.STRING:
            written = text[token.start : token.end + 1]
            kept = _ESCAPES.sub(lambda match: match[0] if match[1] else match[0] * 2, written)
            text = f"{text[: token.start]}{kept}{text[token.end + 1 :]}"
    return text


def like_pattern(node: exp.Expr) -> str:
    """Return the pattern of a LIKE or ILIKE, rewritten so that a backslash is its only escape character.

    A backslash stands before every %, _ and backslash that matches itself. `node` is the LIKE or ILIKE, or an ESCAPE
    around it, which may state another escape character.
    Raises: `InvalidParameter` if the pattern is no text constant, or has an escape before any other character.
    """
    escape, inner = "\\", node
    if isinstance(node, exp.Escape):
        inner, named = node.this, node.args["expression"]
        if type(named) is not exp.Literal or not named.is_string or len(named.this) > 1:
            raise unsupported(f"ESCAPE {named.sql()}", "write one character, as in ESCAPE '!'")
        escape = str(named.this)
    pattern = inner.args["expression"]
    if type(pattern) is not exp.Literal or not pattern.is_string:
        raise unsupported(f"{construct_of(pattern)} as a pattern", "write text with % and _")
    written, place, parts = str(pattern.this), 0, []
    while place < len(written):
        character = written[place]
        place += 1
        if character == escape:
            character = written[place : place + 1]
            place += 1
            if character not in ("%", "_", escape):
                raise unsupported(
                    f"an escape ({escape}) before {character or 'the end'} in LIKE",
                    f"write it before %, _ or {escape}, or name another escape, as in LIKE '..' ESCAPE '!'",
                )
            parts.append("\\" + character if character in "%_\\" else character)
        else:
            parts.append("\\\\" if character == "\\" else character)
    return "".join(parts)


def table_names(text: str) -> tuple[str, ...]:
    """Return the table names after FROM and JOIN in the SQL statement `text`, without duplicates, in order.

    Names of common table expressions are left out.
    """
    tree, _, _ = parse(text)
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    names = [".".join(part.name for part in table.parts) for table in tree.find_all(exp.Table)]
    return tuple(dict.fromkeys(name for name in names if name.lower() not in common))


def _describe_error(error: str | None) -> str:
    """Return a text for people about a syntax error; `error` is sqlglot's description, or None if it gives none.

    The text does not mention names of sqlglot's classes, which say nothing to an analyst.
    """
    if error is None:
        return "it is not SQL"
    if error.startswith("Required keyword"):
        return "a part of it is missing"
    return "it is not expected there" if "Unexpected token" in error else error.split(" but got <")[0]


def _without_clause(tokens: Sequence[Token]) -> tuple[list[Token], dict[str, str]]:
    """Return (tokens, options): a statement's tokens without its clause `WITH DIFFERENTIAL_PRIVACY OPTIONS (...)`.

    The options of the clause are a mapping from names to values as text. The clause is read only directly after the
    word SELECT at the beginning of the statement. Without the clause, all tokens are returned, and the mapping is
    empty.
    Raises: `InvalidParameter` for another clause WITH at this place, and for an unknown, repeated or malformed option.
    """
    kinds = [token.token_type for token in tokens[:2]]
    if kinds != [TokenType.SELECT, TokenType.WITH] or len(tokens) < 3:
        return list(tokens), {}
    if tokens[2].text.upper() != _CLAUSE:
        raise unsupported(f"SELECT WITH {tokens[2].text.upper()}", f"write SELECT WITH {_CLAUSE} OPTIONS (...)")
    place, options = 3, {}
    if len(tokens) > 4 and tokens[3].text.upper() == "OPTIONS" and tokens[4].token_type is TokenType.L_PAREN:
        place = 5
        while place < len(tokens) and tokens[place].token_type is not TokenType.R_PAREN:
            name, value, token_count = _option(tokens[place : place + 4])
            if name in options:
                raise InvalidParameter(f"the option {name} is given twice: give it once")
            options[name] = value
            place += token_count
            if place < len(tokens) and tokens[place].token_type is TokenType.COMMA:
                place += 1
            elif place >= len(tokens) or tokens[place].token_type is not TokenType.R_PAREN:
                raise InvalidParameter(f"the option {name} must be one number or column, as in OPTIONS (epsilon = 1)")
        place += 1
    return [tokens[0], *tokens[place:]], options


def _mark_tops(tokens: Sequence[Token]) -> None:
    """Change the tokens of every SELECT TOP n among `tokens`, in place, so that the parser reads TOP n as LIMIT n.

    TOP is taken for a column, and left unchanged, unless a number follows it.
    Raises: `InvalidParameter` for TOP n PERCENT and TOP n WITH TIES.
    """
    for place, token in enumerate(tokens[:-2]):
        words = [each.text.upper() for each in tokens[place + 1 : place + 4]]
        number = words[-1] if words[1] == "(" else words[1]
        if token.token_type is not TokenType.SELECT or words[0] != "TOP" or not number.isdecimal():
            continue
        after = [each.text.upper() for each in tokens[place + (5 if words[1] == "(" else 3) :][:2]]
        if after[:1] == ["PERCENT"] or after == ["WITH", "TIES"]:
            raise unsupported(f"TOP {number} {' '.join(after[: 1 if after[0] == 'PERCENT' else 2])}", "write TOP 10")
        tokens[place + 1].token_type = TokenType.TOP


def _option(written: Sequence[Token]) -> tuple[str, str, int]:
    """Return (name, value as text, number of tokens) of the first option, such as epsilon = 1, in `written`.

    `written` are the next tokens of an OPTIONS clause. The caller goes on after the tokens of this option.
    Raises: `InvalidParameter` for an unknown or malformed option.
    """
    name = written[0].text.lower()
    if name not in OPTIONS:
        raise unsupported(f"the option {written[0].text}", f"OPTIONS takes {', '.join(OPTIONS)}")
    kinds = [token.token_type for token in written[1:]]
    if name == "privacy_unit_column":
        if kinds[:2] not in ([TokenType.EQ, TokenType.VAR], [TokenType.EQ, TokenType.IDENTIFIER]):
            raise InvalidParameter(f"the option {name} must be a column, as in {name} = user_id")
        return name, written[2].text, 3
    if name == "max_groups_contributed" and kinds[:1] == [TokenType.EQ] and written[2].text.upper() == "AUTO":
        return name, "auto", 3
    if kinds[:2] == [TokenType.EQ, TokenType.NUMBER]:
        return name, written[2].text, 3
    if kinds == [TokenType.EQ, TokenType.DOT, TokenType.NUMBER]:
        return name, f".{written[3].text}", 4
    raise InvalidParameter(f"the option {name} must be a number, as in {name} = 1")


def unsupported(construct: str, instead: str) -> InvalidParameter:
    """Return an error, for the caller to raise, which says that `construct` is not supported.

    `instead` is what the error suggests to write instead.
    """
    return InvalidParameter(f"{construct} is not supported in SQL here: {instead}")


def check_parts(node: exp.Expr, *allowed: str) -> None:
    """Raise `InvalidParameter` if the syntax node `node` has a part, such as a clause, that is not in `allowed`.

    `allowed` are the names of the parts that the caller converts. Without this check any other part would be silently
    ignored.
    """
    for name, value in node.args.items():
        if name not in allowed and value not in (None, False, []):
            first = value[0] if isinstance(value, list) else value
            named = construct_of(first) if isinstance(first, exp.Expr) else name.strip("_").upper()
            raise unsupported(_PARTS.get((type(node), name), named), "leave it out")


def column_name(node: exp.Expr, where: str) -> str:
    """Return the name of the column that the syntax node `node` refers to.

    Raises: `InvalidParameter` if the node is not a column, or has a qualifier such as t. before it; `where` is the name
    of the clause in the message.
    """
    if type(node) is not exp.Column or type(node.this) is not exp.Identifier:
        if type(node) is exp.Literal and node.is_string:
            raise unsupported(
                f"the text {node.this!r} in {where}", "write the name of a column, in `backticks` if it needs quotes"
            )
        raise unsupported(f"{construct_of(node)} in {where}", "write the name of a column")
    if node.args.get("table") is not None:
        raise unsupported(f"the qualified column {node.sql()}", f"write {node.name} alone")
    check_parts(node, "this")
    return str(node.name)


def only_column(columns: Sequence[exp.Expr]) -> exp.Expr:
    """Return the only one of `columns`, the SELECT list of a scalar subquery.

    Raises: `InvalidParameter` if there are several.
    """
    if len(columns) != 1:
        raise InvalidParameter(f"a subquery in an expression selects one column, not {len(columns)}")
    return columns[0]


def number_of(node: exp.Expr, name: str) -> int | float:
    """Return the number, with its sign, that the syntax node `node` states as a constant.

    Raises: `InvalidParameter` if the node is not a constant number; the message calls it `name`.
    """
    if type(node) is exp.Neg:
        return -number_of(node.this, name)
    if type(node) is not exp.Literal or node.is_string:
        raise unsupported(f"{construct_of(node)} as {name}", "write a number")
    return number_in(str(node.this), name)


def number_in(written: str, name: str) -> int | float:
    """Return the number that the text `written` states: an int if it has only digits, and a float otherwise.

    Raises: `InvalidParameter` if the text is not a number, or too large for a float, such as 1e999; the message calls
    it `name`.
    """
    try:
        number = int(written) if written.isdecimal() and len(written) <= 30 else float(written)
    except ValueError:
        raise InvalidParameter(f"{name} must be a number, not {written!r}") from None
    if not math.isfinite(number):
        raise InvalidParameter(f"{name} must be a number below 1e308, not {written[:40]!r}")
    return number


def construct_of(node: exp.Expr) -> str:
    """Return what the syntax node `node` is, for error messages, such as "a subquery" or "the column 'x'"."""
    match node:
        case exp.Anonymous():
            return str(node.this).upper()
        case exp.Window():
            return "OVER (a window function)"
        case exp.Select() | exp.Subquery():
            return "a subquery"
        case exp.SetOperation():
            return node.key.upper()
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.Neg():
            return "arithmetic"
        case exp.Star():
            return "*"
        case exp.Literal():
            return f"the constant {node.this!r}"
        case exp.Column():
            return f"the column {node.name!r}"
        case _:
            return _NAMES.get(type(node), node.key.upper())


_PARTS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Distinct, "on"): "DISTINCT ON",
    (exp.Star, "except_"): "* EXCEPT",
    (exp.Star, "replace"): "* REPLACE",
    (exp.Star, "rename"): "* RENAME",
    (exp.TableAlias, "columns"): "a list of column names after the alias of a table",
    (exp.Select, "locks"): "FOR UPDATE",
}
"""What people call parts of syntax nodes whose own construct would not be understood."""

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""The comparisons, with the sign of each as filters and messages write it."""

MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
"""The comparison that is equal to each inequality if its two sides are swapped: a < b is b > a."""

SETS_OF_GROUPS = ("rollup", "cube", "grouping_sets")
SETS_OF_GROUPS_NODES = (exp.Rollup, exp.Cube, exp.GroupingSets)
"""ROLLUP, CUBE and GROUPING SETS in the syntax tree of GROUP BY: the names of its parts, and the types of its nodes."""

_NAMES: dict[type[exp.Expr], str] = {
    **COMPARISONS,
    exp.With: "WITH (a common table expression)",
    exp.Paren: "(..)",
    exp.Tuple: "(.., ..)",
    exp.Array: "[..]",
    exp.WithinGroup: "WITHIN GROUP",
    exp.TableSample: "TABLESAMPLE",
    exp.TableAlias: "an alias of the table",
    exp.ILike: "ILIKE",
    exp.TryCast: "SAFE_CAST",
    exp.RegexpLike: "a regular expression",
    exp.Dot: "a field of a record",
    exp.Bracket: "an element of an array",
    exp.DPipe: "||",
    exp.Parameter: "a parameter (@)",
    exp.Placeholder: "a placeholder (?)",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
"""What people call syntax nodes whose class name would not be understood."""


def short_text(node: exp.Expr) -> str:
    """Return the SQL text of `node`, cut off after 60 characters."""
    return str(node.sql(dialect="duckdb"))[:60]
