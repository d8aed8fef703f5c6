"""The bibliography as a page, from references.bib."""

import re
from pathlib import Path

_ENTRY = re.compile(r"^@(?P<kind>\w+)\{(?P<key>[^,\s]+),(?P<fields>.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(?P<name>\w+)\s*=\s*\{(?P<value>.*?)\},?\s*$", re.MULTILINE)
_ACCENTS = {
    r"{\'e}": "é",
    r"{\'a}": "á",
    r"{\'i}": "í",
    r"{\'o}": "ó",
    r"{\"o}": "ö",
    r"{\"u}": "ü",
    r"{\"a}": "ä",
    r"{\o}": "ø",
    r"{\v{c}}": "č",
    r"{\c{c}}": "ç",
    r"{\~n}": "ñ",
}


def bibliography(source: Path) -> str:
    """Return one paragraph per entry, in the order of their keys, each with its key as anchor."""
    entries = {match["key"]: _fields(match["fields"]) for match in _ENTRY.finditer(source.read_text(encoding="utf-8"))}
    return "\n\n".join(_paragraph(key, entries[key]) for key in sorted(entries))


def _fields(text: str) -> dict[str, str]:
    return {match["name"].lower(): _plain(match["value"]) for match in _FIELD.finditer(text)}


def _plain(value: str) -> str:
    for written, meant in _ACCENTS.items():
        value = value.replace(written, meant)
    value = re.sub(r"\$([^$]*)\$", r"*\1*", value)
    return value.replace("{", "").replace("}", "").replace("--", "–").strip()


def _paragraph(key: str, fields: dict[str, str]) -> str:
    where = [fields[name] for name in ("journal", "booktitle", "series", "publisher", "institution") if name in fields]
    if "volume" in fields:
        where.append(f"volume {fields['volume']}")
    if "number" in fields:
        where.append(f"number {fields['number']}")
    if "pages" in fields:
        where.append(f"pages {fields['pages']}")
    where += [fields[name] for name in ("year", "note") if name in fields]
    return (
        f'<a id="{key}"></a>**{key}** · {_authors(fields.get("author", ""))}. *{fields["title"]}*. {", ".join(where)}.'
    )


def _authors(field: str) -> str:
    names = [" ".join(reversed([part.strip() for part in name.split(",", 1)])) for name in field.split(" and ")]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
