"""Make the pictures of docs/pages.md from the screenshots that the tests have kept: `make pictures`."""

from pathlib import Path

from PIL import Image

from tests.web.chromium import ARTEFACTS

PICTURES = Path(__file__).parents[2] / "docs/pictures"
SOURCES = {
    "explore": "explore-light",
    "account": "account-dark-1360",
    "ask": "ask-light",
    "steward": "steward-light",
}
_WIDTH = 1100
_COLOURS = 128


def shrink(source: Path, target: Path) -> None:
    """Write a screenshot smaller and with few colours."""
    with Image.open(source) as whole:
        height = round(whole.height * _WIDTH / whole.width)
        small = whole.convert("RGB").resize((_WIDTH, height), Image.Resampling.LANCZOS)
    small.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, source in SOURCES.items():
        shrink(ARTEFACTS / f"{source}.png", PICTURES / f"{name}.png")
