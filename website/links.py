"""Links that are right on a checkout, made right on the site, which holds docs/ only and has pages for folders."""

import posixpath
import re
from pathlib import Path

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?!\w+:|#)[^)\s]+)\)")


def links_of_the_site(markdown: str, page: str, root: Path) -> str:
    """Return the page with links to folders on their README, and links that leave docs/ as plain text.

    A file outside docs/ that is linked to must exist; inside, the builder checks.
    """

    def kept(match: re.Match[str]) -> str:
        path, hash_mark, anchor = match["target"].partition("#")
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
        if (root / target / "README.md").exists():
            target, path = f"{target}/README.md", f"{path.rstrip('/')}/README.md"
        if target.startswith("docs/"):
            return f"[{match['text']}]({path}{hash_mark}{anchor})"
        if not (root / target).exists():
            raise FileNotFoundError(f"docs/{page} links to {target}, which does not exist")
        return match["text"]

    return _LINK.sub(kept, markdown)
