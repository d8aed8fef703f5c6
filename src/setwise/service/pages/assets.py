"""Our own styles and scripts, as they are installed."""

import hashlib
from functools import cache
from importlib.resources import files

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return every file: its contents and type by its name."""
    folder = files("setwise.service.pages").joinpath("static")
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    return {
        each.name: (each.read_bytes(), kind)
        for each in found
        if (kind := _TYPES.get("." + each.name.rpartition(".")[2])) is not None
    }


@cache
def static_version() -> str:
    """Return a digest of all files: one for all, since scripts import each other by relative names."""
    digest = hashlib.sha256()
    for name, (contents, _) in static_files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(contents).digest())
    return digest.hexdigest()[:16]
