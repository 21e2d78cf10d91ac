"""The pages beside the code: what they link to and name is there, and what is generated is current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCES = ROOT / "src" / "terracrew"
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|json|sql|sh))\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_or_names_is_there(page: Path) -> None:
    text = page.read_text()
    links = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    assert links == []
    places = (ROOT, SOURCES, SOURCES / "server", page.parent)
    assert [name for name in _FILE.findall(text) if not any((place / name).exists() for place in places)] == []


def test_the_diagram_of_statuses_is_current() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "statuses.py")]
    page = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout
    assert page == (ROOT / "docs" / "job-statuses.md").read_text(), "scripts/statuses.py > docs/job-statuses.md"
