"""A real browser for the tests: Debian's Chromium, without a window, that talks to nobody but us."""

import os
import shutil
from pathlib import Path

import pytest

ARTEFACTS = Path(__file__).parents[2] / "artefacts"
"""Where screenshots are kept."""

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
]


def needed(command: str) -> str:
    """Return where a command is; without it the test is skipped, and under CI=true fails."""
    names = {"chromium": ("chromium", "chromium-browser", "google-chrome")}.get(command, (command,))
    found = next((path for name in names if (path := shutil.which(name)) is not None), None)
    if found is None:
        reason = f"{command} is not installed; make browser installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
