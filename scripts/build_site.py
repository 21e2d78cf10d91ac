"""Builds the documentation site: `build_site.py FOLDER`. Every warning is an error."""

import shutil
import sys
from pathlib import Path
from typing import Any

import site_pages
from sphinx.application import Sphinx

_SETTINGS: dict[str, Any] = {
    "project": "Terracrew",
    "html_title": "Terracrew",
    "root_doc": "README",
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 6,
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_permalinks_icon": "#",
    "html_last_updated_fmt": None,
    "smartquotes": False,
    "html_favicon": "icon.svg",
    "suppress_warnings": ["misc.highlighting_failure"],  # the diagram of statuses is shown as text
}

_ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
    '<th class="head"><p></p></th>': "<td></td>",
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
"""What the theme writes, and what people need who use a keyboard or a screen reader."""


def build(out: Path) -> None:
    """Build the site into a folder, whose earlier content is removed."""
    shutil.rmtree(out, ignore_errors=True)
    source = out.with_name(f"{out.name}-source")
    shutil.rmtree(source, ignore_errors=True)
    site_pages.stage(source)
    app = Sphinx(
        source,
        None,
        out,
        out.with_name(f"{out.name}-trees"),
        "html",
        _SETTINGS,
        status=None,
        warningiserror=True,
        keep_going=True,
        freshenv=True,
    )
    app.build()
    if app.statuscode:
        sys.exit(app.statuscode)
    for page in out.rglob("*.html"):
        text = page.read_text()
        for written, needed in _ACCESSIBLE.items():
            text = text.replace(written, needed)
        page.write_text(text)
    shutil.copyfile(out / "README.html", out / "index.html")


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute())
