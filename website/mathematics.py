"""Formulas as MathML, made when the site is built: no script runs in the reader's browser and none is fetched."""

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">(?P<source>.*?)</(?P=tag)>', re.DOTALL)
_NAME = re.compile(r"\\tag\{(?P<name>[^}]*)\}")
_SPACED_ROW = re.compile(r"\\\\\s*\[[^\]]*\]")
_REFERENCE = re.compile(r"&#x0*(?P<code>[0-9A-F]+);")
_LIMIT = re.compile(r"<msub>(<mo[^>]*>(?:sup|inf|max|min)</mo>)(.*?)</msub>", re.DOTALL)
_SIGN = re.compile(r"(<mo[^>]*>(?:[(\[{=,≤≥∈]|&[lg]t;)</mo>)<mo>([−+±])</mo>")
_SET_MINUS = "<mi>\u29f5</mi>"
"""How the converter writes \\setminus: a character that few fonts have, and no operator."""

_BAR = re.compile(r'<mo stretchy="false">\|</mo>')


def with_formulas(page: str) -> str:
    """Return the page with every formula written as MathML; the name of an equation stands at its right."""
    return _FORMULA.sub(_formula, page)


def _formula(match: re.Match[str]) -> str:
    source = html.unescape(match["source"]).strip()[2:-2]  # without \( .. \) or \[ .. \]
    named = _NAME.search(source)
    source = _SPACED_ROW.sub(r"\\\\", _NAME.sub("", source)).strip()
    if match["tag"] == "span":
        return _spaced(convert(source))
    written = _LIMIT.sub(r"<munder>\1\2</munder>", _spaced(convert(source, display="block")))
    name = f'<span class="equation-name">({html.escape(named["name"])})</span>' if named else ""
    return f'<div class="equation">{written}{name}</div>'


def _spaced(formula: str) -> str:
    """Return the formula with signs that belong to a number close to it, and bars that do not float."""
    formula = _REFERENCE.sub(lambda match: html.escape(chr(int(match["code"], 16))), formula)
    formula = formula.replace(_SET_MINUS, "<mo>\u2216</mo>")
    formula = _SIGN.sub(r'\1<mo form="prefix">\2</mo>', formula)
    return _BAR.sub('<mo stretchy="false" lspace="0" rspace="0">|</mo>', formula)
