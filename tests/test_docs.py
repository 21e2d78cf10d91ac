"""The pages beside the code: what they link to and name is there, and what is generated is current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import command_lines

ROOT = Path(__file__).parents[1]
_SUPERSEDED = "\nStatus: superseded"
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if _SUPERSEDED not in page.read_text()[:400]
)
"""A decision that is superseded describes code that is gone, so it is not compared with the code."""
SOURCES = ROOT / "src" / "terracrew"
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|json|sql|sh))\b")
_MODULE = re.compile(r"`((?:\w+/)+\w+)(?:\.(\w+))?/?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_or_names_is_there(page: Path) -> None:
    text = page.read_text()
    links = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    assert links == []
    places = (ROOT, SOURCES, SOURCES / "server", page.parent)
    assert [name for name in _FILE.findall(text) if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_packages_modules_and_what_is_in_them_exist_under_the_names_that_a_page_gives(page: Path) -> None:
    """A decision record named the package `server/api/docs` after it had moved."""
    places = (ROOT, SOURCES, SOURCES / "server", SOURCES / "executor", SOURCES / "runner")
    wrong: list[str] = []
    for path, name in _MODULE.findall(page.read_text()):
        homes = [place for place in places if (place / path.partition("/")[0] / "__init__.py").exists()]
        files = [place / f"{path}.py" for place in homes if (place / f"{path}.py").exists()]
        is_there = any(re.search(rf"\b{name}\b", file.read_text()) for file in files) if name else files
        if homes and not is_there and not any((place / f"{path}.{name}".rstrip(".")).exists() for place in homes):
            wrong.append(f"{path}.{name}".rstrip("."))
    assert wrong == []


def test_every_test_file_that_a_page_or_the_code_names_exists() -> None:
    """ARCHITECTURE.md named `test_losses.py` and the encryption of saved plans `test_seal.py`, after both had moved."""
    paths = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    names = [
        (str(file.relative_to(ROOT)), name)
        for file in (*PAGES, *SOURCES.rglob("*.py"))
        if file.name != "CHANGELOG.md"
        for name in re.findall(r"[\w/]*\btest_\w+\.py\b", file.read_text())
    ]
    assert [(file, name) for file, name in names if not any(f"/{path}".endswith(f"/{name}") for path in paths)] == []


def test_the_diagram_of_statuses_is_current() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "statuses.py")]
    page = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout
    assert page == (ROOT / "docs" / "job-statuses.md").read_text(), "scripts/statuses.py > docs/job-statuses.md"


@pytest.mark.feature("T4.reference")
@pytest.mark.parametrize("process", ["server", "runner"])
def test_the_page_of_settings_is_current(process: str) -> None:
    script = [sys.executable, str(ROOT / "scripts" / f"{process}_settings.py")]
    page = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout
    assert page == (ROOT / "docs" / f"{process}-settings.md").read_text(), "make settings"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    text = page.read_text()
    found = [(words, command_lines.fault(words, is_whole=True)) for words in command_lines.typed(text)]
    found += [(words, command_lines.fault(words, is_whole=False)) for words in command_lines.mentioned(text)]
    assert [(" ".join(words), fault) for words, fault in found if fault] == []


def test_the_commands_of_pages_are_found_in_blocks_and_pipelines_and_their_mistakes_are_seen() -> None:
    """`- terracrew …` in the example of a pipeline, and `job=$(terracrew …)`, were not looked at."""
    text = """
    - terracrew job logs -f "$job" || [ $? = 14 ]
    job=$(terracrew job run a/b --plan --from x)   # it's a plan
    terracrew service-account trust add acme/deploy \\
        --issuer https://gitlab.example.com | sed s/a/b/

```yaml
script:
  - /opt/terracrew/bin/terracrew server --config /etc/server.toml admin-link
```
"""
    assert [" ".join(words) for words in command_lines.typed(text)] == [
        "server --config /etc/server.toml admin-link",
        "job logs -f $job",
        "job run a/b --plan --from x",
        "service-account trust add acme/deploy --issuer https://gitlab.example.com",
    ]
    wrong = ["job run --plam a/b", "job run", "job run a/b c", "module create a --from", "jobs list", "job run a --var"]
    assert [line for line in wrong if not command_lines.fault(line.split(), is_whole=True)] == []
    assert command_lines.fault(["job", "approve"], is_whole=False) == ""


def sections(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and GitLab make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_section_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    assert [
        (name, anchor) for name, anchor in links if anchor not in sections(page.parent / name if name else page)
    ] == []


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(index.read_text())}
    pages = {page for page in PAGES if page.parent.name != "decisions"} - {index}
    assert pages - linked == set()
