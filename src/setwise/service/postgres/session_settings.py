"""The settings of one PostgreSQL connection: SET, RESET and SHOW, and what the end of a transaction restores.

As in PostgreSQL, ROLLBACK restores the settings that held when the transaction began, and a value of SET LOCAL lasts
until the transaction ends. This matters because settings decide what a question costs: a value that outlived its
transaction would spend budget that nobody meant to spend.
"""

import re
from dataclasses import dataclass

from setwise.service.postgres.catalogue_tables import SETTINGS
from setwise.service.postgres.replies import Rejected, Reply, Result
from setwise.service.postgres.values import TEXT, ResultColumn

_DEFAULTS = {
    **SETTINGS,
    "setwise.epsilon": "",
    "setwise.delta": "",
    "setwise.key": "",
    "setwise.intervals": "off",
}

REPORTED = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "integer_datetimes",
    "IntervalStyle",
    "standard_conforming_strings",
    "is_superuser",
    "application_name",
)
"""Settings whose values PostgreSQL sends to every client when a session begins."""

_MOST_SETTINGS = 200
"""The most settings that one session keeps, so that a client cannot fill the memory with SET."""

_MOST_SAVEPOINTS = 50
"""The most savepoints whose settings one session keeps, for the same reason."""

_SET = re.compile(r"SET\s+(SESSION\s+|LOCAL\s+)?([\w.\"]+)(?:\s*=|\s+TO\s)\s*(.*)", re.IGNORECASE | re.DOTALL)
_SET_SPECIAL = re.compile(r"SET\s+(SESSION\s+|LOCAL\s+)?(TIME\s+ZONE|NAMES|SCHEMA)\s+(.*)", re.IGNORECASE | re.DOTALL)
_SPECIAL_NAMES = {"TIME ZONE": "timezone", "NAMES": "client_encoding", "SCHEMA": "search_path"}
"""Settings for which SET has a syntax of its own, such as SET NAMES 'UTF8', by the words of that syntax."""

_SET_WITHOUT_EFFECT = re.compile(
    r"SET\s+(?:(?:SESSION|LOCAL)\s+)?(?:TRANSACTION|CHARACTERISTICS|AUTHORIZATION|ROLE|CONSTRAINTS)\b", re.IGNORECASE
)
_SHOW = re.compile(r"SHOW\s+(.+)", re.IGNORECASE | re.DOTALL)
_RESET = re.compile(r"RESET\s+([\w.]+)", re.IGNORECASE)
_UTF8 = ("UTF8", "UTF-8", "UNICODE")

_TEXT_OR_NULL = r"\s*('(?:[^']|'')*'|NULL)\s*(?:::\s*text\s*)?"
_NAMED = r"(?:\s+(?:AS\s+)?(\"[^\"]+\"|\w+))?"
_SET_CONFIG = re.compile(
    rf"SELECT\s+(?:pg_catalog\s*\.\s*)?set_config\s*\({_TEXT_OR_NULL},{_TEXT_OR_NULL},\s*'?(\w+)'?\s*\){_NAMED}",
    re.IGNORECASE,
)
_CURRENT_SETTING = re.compile(
    rf"SELECT\s+(?:pg_catalog\s*\.\s*)?current_setting\s*\({_TEXT_OR_NULL}(?:,\s*'?\w+'?\s*)?\){_NAMED}",
    re.IGNORECASE,
)
"""A SELECT of the function `set_config` or `current_setting` alone, with constants as arguments."""

_SET_CONFIG_OF_OURS = re.compile(r"\bset_config\s*\([^()]*setwise\.", re.IGNORECASE)

_QUIET = ("warning", "error", "fatal", "panic")
"""The values of client_min_messages with which a client is sent no notices."""


@dataclass(frozen=True, slots=True)
class _Saved:
    """A copy of a connection's settings, made when a transaction began or at a savepoint, which ROLLBACK restores.

    `name` is the name of the savepoint, or "" for the beginning of the transaction. `values` are the values of SET, and
    `local` the values of SET LOCAL, both by the name of the setting.
    """

    name: str
    values: dict[str, str]
    local: dict[str, str]


class SessionSettings:
    """The settings of one PostgreSQL connection, and the methods that run the statements SET, RESET and SHOW.

    Besides PostgreSQL's own settings, such as DateStyle, a connection has settings of the service: setwise.epsilon and
    setwise.delta are the budget of each question that it asks, for example.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._local: dict[str, str] = {}
        """The values of SET LOCAL, which end with the transaction."""
        self._saved: list[_Saved] = []
        """The settings when the transaction began, and at each of its savepoints; empty outside a transaction."""

    def get(self, name: str) -> str | None:
        """Return the value of the setting `name`, or its default if it was not set; None for an unknown setting."""
        lowered = name.lower()
        return self._local.get(lowered, self._values.get(lowered, _DEFAULTS.get(lowered)))

    @property
    def wants_notices(self) -> bool:
        """Whether the client is sent notices, which its setting client_min_messages decides."""
        return (self.get("client_min_messages") or "").lower() not in _QUIET

    def keep(self, name: str, value: str, *, is_local: bool = False) -> None:
        """Store the `value` of the setting `name` (in lower case), cut to 1000 characters.

        With `is_local`, the value lasts only until the transaction ends. Raises `Rejected` if the session has too many
        settings.
        """
        if name not in self._values and len(self._values) + len(self._local) >= _MOST_SETTINGS:
            raise Rejected("53400", f"a session keeps at most {_MOST_SETTINGS} settings")
        if is_local:
            self._local[name] = value[:1000]
        else:
            self._values[name] = value[:1000]
            self._local.pop(name, None)

    def begin(self) -> None:
        """Remember the settings at the beginning of a transaction, so that a rollback can restore them.

        Does nothing if a transaction has begun already.
        """
        if not self._saved:
            self.save("")

    def save(self, savepoint: str) -> None:
        """Remember the current settings under the name `savepoint`; raise `Rejected` if too many savepoints exist."""
        if len(self._saved) >= _MOST_SAVEPOINTS:
            raise Rejected("53400", f"a transaction has at most {_MOST_SAVEPOINTS} savepoints")
        self._saved.append(_Saved(savepoint, dict(self._values), dict(self._local)))

    def commit(self) -> None:
        """End the transaction: keep the values of SET, and drop those of SET LOCAL."""
        self._saved.clear()
        self._local.clear()

    def roll_back(self, savepoint: str | None = None) -> None:
        """Restore the settings that were remembered at the savepoint called `savepoint`, and forget later savepoints.

        If several savepoints have the name, the last of them is used; if none has it, nothing is restored. If
        `savepoint` is None, the settings at the beginning of the transaction are restored, and the transaction ends.
        """
        if savepoint is None:
            if self._saved:
                self._values = dict(self._saved[0].values)
            self.commit()
            return
        for place in range(len(self._saved) - 1, 0, -1):
            if self._saved[place].name == savepoint:
                self._values, self._local = dict(self._saved[place].values), dict(self._saved[place].local)
                del self._saved[place + 1 :]
                return

    def run_set(self, text: str) -> Reply:
        """Run the SET statement `text`: store the value of a setting.

        Raises `Rejected` for an unknown setting whose name begins with setwise, and for an encoding other than UTF-8.
        """
        if _SET_WITHOUT_EFFECT.match(text):
            return Reply("SET")
        if special := _SET_SPECIAL.fullmatch(text):
            name, value = _SPECIAL_NAMES[" ".join(special[2].upper().split())], unquote(special[3])
            scope = special[1]
        elif match := _SET.fullmatch(text):
            scope, name, value = match[1], match[2].strip('"').lower(), unquote(match[3])
        else:
            raise Rejected("42601", "SET is written SET name = value")
        is_local = (scope or "").strip().upper() == "LOCAL"
        if is_local and not self._saved:
            return Reply("SET", notices=("SET LOCAL can only be used in transaction blocks; nothing was set.",))
        self._set(name, value, is_local=is_local)
        return Reply("SET")

    def _set(self, name: str, value: str, *, is_local: bool) -> None:
        """Store the `value` of the setting `name` as SET does or, with `is_local`, as SET LOCAL does.

        A value of SET LOCAL lasts until the transaction ends. The value DEFAULT stands for the setting's default.
        Raises `Rejected` if the setting or the value is not allowed.
        """
        if name.startswith("setwise.") and name not in _DEFAULTS:
            known = ", ".join(setting for setting in _DEFAULTS if setting.startswith("setwise."))
            raise Rejected("42704", f"there is no setting {name}", f"The settings are {known}.")
        if value.upper() == "DEFAULT":
            self._local.pop(name, None)
            if not is_local:
                self._values.pop(name, None)
            elif name in self._values:
                # Hides the session's value, which holds again once the transaction ends. If it were deleted, later
                # questions would spend the account's default epsilon instead of the session's.
                self.keep(name, _DEFAULTS.get(name, ""), is_local=True)
            return
        if name == "client_encoding":
            if value.upper() not in _UTF8:
                raise Rejected("22023", "texts are sent in UTF8 and in no other encoding", "SET client_encoding = UTF8")
            value = "UTF8"
        if name == "setwise.intervals":
            value = "on" if value.lower() in ("on", "true", "1", "yes") else "off"
        self.keep(name, value, is_local=is_local)

    def run_reset(self, text: str) -> Reply:
        """Run the RESET statement `text`: restore the default of one setting, or of all."""
        match = _RESET.fullmatch(text)
        name = match[1].lower() if match else "all"
        if name == "all":
            self.clear()
        else:
            self._values.pop(name, None)
            self._local.pop(name, None)
        return Reply("RESET")

    def clear(self) -> None:
        """Restore the defaults of all settings."""
        self._values.clear()
        self._local.clear()

    def run_show(self, text: str) -> Reply:
        """Run the SHOW statement `text`: reply with the value of one setting, or of all.

        Raises `Rejected` if the setting is unknown.
        """
        name = _setting_to_show(text)
        columns = columns_of_show(text)
        if name.upper() == "ALL":
            names = sorted({**_DEFAULTS, **self._values, **self._local})
            return Reply("SHOW", Result(columns, [(each, self.get(each), "") for each in names]))
        value = self.get(name)
        if value is None:
            raise Rejected("42704", f'unrecognized configuration parameter "{name}"')
        return Reply("SHOW", Result(columns, [(value,)]))

    def run_call(self, text: str) -> Reply | None:
        """Run `text` if it is a SELECT of one `set_config` or `current_setting` call; return None for other statements.

        The two functions change and read the connection's settings. They are run here, because the DuckDB database that
        answers other queries of PostgreSQL's system tables does not have these settings. Returns None also if the
        setting to read is unknown.

        Raises `Rejected` for any other statement that calls `set_config` for a setting of the service, such as
        setwise.epsilon, because that database would only pretend to change it.
        """
        if match := _SET_CONFIG.fullmatch(text):
            name, value = (None if cell.upper() == "NULL" else unquote(cell) for cell in (match[1], match[2]))
            if name is None:
                raise Rejected("22004", "set_config needs the name of a setting")
            is_local = match[3].lower() in ("t", "true", "on", "yes", "1")
            if not is_local or self._saved:
                self._set(name.lower(), "DEFAULT" if value is None else value, is_local=is_local)
            alias, result = unquote(match[4] or "set_config"), value or ""
        elif match := _CURRENT_SETTING.fullmatch(text):
            known = self.get(unquote(match[1]))
            if known is None:
                return None
            alias, result = unquote(match[2] or "current_setting"), known
        elif _SET_CONFIG_OF_OURS.search(text):
            raise Rejected("0A000", "set_config sets a setting of Setwise only alone", "SET setwise.epsilon = 0.1")
        else:
            return None
        return Reply("SELECT 1", Result((ResultColumn(alias, TEXT),), [(result,)]))


def columns_of_show(text: str) -> tuple[ResultColumn, ...]:
    """Return the result columns of the SHOW statement `text`.

    SHOW of one setting has one column with the setting's name; SHOW ALL has the columns name, setting and description.
    """
    name = _setting_to_show(text)
    names = ("name", "setting", "description") if name.upper() == "ALL" else (name,)
    return tuple(ResultColumn(each, TEXT) for each in names)


def _setting_to_show(text: str) -> str:
    """Return the name of the setting in the SHOW statement `text`, or "ALL" for all settings.

    Several words that name a setting, such as TIME ZONE, become its name, such as TimeZone.
    """
    match = _SHOW.match(text)
    words = "" if match is None else " ".join(match[1].strip().rstrip(";").strip('"').split())
    aliases = {
        "TRANSACTION ISOLATION LEVEL": "transaction_isolation",
        "TIME ZONE": "TimeZone",
        "SESSION AUTHORIZATION": "session_authorization",
    }
    return aliases.get(words.upper(), words)


def unquote(text: str) -> str:
    """Return `text`, a value or name in a statement, without its quotes and without a semicolon at the end."""
    plain = text.strip().rstrip(";").strip()
    if len(plain) >= 2 and plain[0] == plain[-1] and plain[0] in "'\"":
        return plain[1:-1].replace(plain[0] * 2, plain[0])
    return plain
