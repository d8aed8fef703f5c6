"""Make the pictures of docs/pages.md from the screenshots that the tests have kept: `make pictures`."""

import re
from importlib.resources import files
from pathlib import Path

from PIL import Image

from tests.web.chromium import ARTEFACTS

PICTURES = Path(__file__).parents[2] / "docs/pictures"
SOURCES = {
    "explore": "explore-light",
    "account": "account-dark-1360",
    "ask": "ask-sql-light-1360",
    "steward": "steward-light",
}
_WIDTH = 1100
_COLOURS = 160


def shrink(source: Path, target: Path) -> None:
    """Write a screenshot smaller and with few colours, those of the page among them."""
    with Image.open(source) as whole:
        height = round(whole.height * _WIDTH / whole.width)
        small = whole.convert("RGB").resize((_WIDTH, height), Image.Resampling.LANCZOS)
    styles = files("setwise.service.pages").joinpath("static", "page.css").read_text()
    ours = sorted(set(re.findall(r"#[0-9a-f]{6}", styles)))
    chart = Image.new("RGB", (_WIDTH, height + 12 * len(ours)))
    chart.paste(small)
    for place, colour in enumerate(ours):
        chart.paste(colour, (0, height + 12 * place, _WIDTH, height + 12 * (place + 1)))
    palette = chart.quantize(_COLOURS, dither=Image.Dither.NONE)
    small.quantize(palette=palette, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, source in SOURCES.items():
        shrink(ARTEFACTS / f"{source}.png", PICTURES / f"{name}.png")
