"""The documentation site: its navigation has every page, and every link, anchor, picture and script of it leads to a file of it."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pytest
from playwright.async_api import ViewportSize, async_playwright

from tests.cli.every_command import COMMANDS
from tests.machine.needs import chromium
from tests.server.dashboard.browser import accessibility
from tests.thoroughness import thorough

ROOT = Path(__file__).parents[1]
_LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
"""What a browser fetches by itself when it shows a page."""


class Page(HTMLParser):
    """Collects what a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found: dict[str, Any] = dict(attrs)
        self.anchors.update(found[name] for name in ("id", "name") if found.get(name))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in _LOADS and found.get(_LOADS[tag]):
            self.loads.append(found[_LOADS[tag]])


def is_outside(link: str) -> bool:
    return link.startswith(("https:", "http:", "//", "mailto:", "data:"))


def wrong_links(site: Path) -> Iterator[tuple[str, str]]:
    """Yield every link of a page to a file or an anchor that is not there, with the page."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            if is_outside(link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            is_there = target.is_file() and (not anchor or target not in pages or anchor in pages[target].anchors)
            if not is_there and link != "#":
                yield str(path.relative_to(site.resolve())), link


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(ROOT / "scripts" / "build_site.py"), str(folder)]
    return subprocess.run(script, capture_output=True, text=True, timeout=580, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. A warning of the build is an error."""
    folder = tmp_path_factory.mktemp("built") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.feature("P6.site")
@pytest.mark.timeout(600)
@thorough
def test_the_site_is_built_without_a_warning_and_each_of_its_links_leads_somewhere(site: Path) -> None:
    assert list(wrong_links(site)) == []
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    assert [(path.name, load) for path, page in pages.items() for load in page.loads if is_outside(load)] == []
    assert (site / "index.html").read_text() == (site / "README.html").read_text()


@pytest.mark.browser
@pytest.mark.feature("P6.site")
@pytest.mark.timeout(600)
@thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_people_read_and_search_the_site_from_a_folder(site: Path, scheme: Literal["light", "dark"]) -> None:
    """Blocks of code could not be scrolled by keyboard, and captions of the navigation were headings without a level."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        phone: ViewportSize = {"width": 390, "height": 844}
        page = await browser.new_page(color_scheme=scheme, viewport=phone)
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: complaints.append(asked.url) if is_outside(asked.url) else None)
        checked = await browser.new_page(color_scheme=scheme, viewport=phone)  # axe reads style sheets, which complains
        faults: list[tuple[str, str]] = []
        for name in ("index", "docs/tutorial-first-module", "docs/production", "docs/reference/actions"):
            await page.goto(f"file://{site}/{name}.html")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
            await checked.goto(f"file://{site}/{name}.html")
            faults += [(name, each) for each in await accessibility.faults(checked)]
        assert (faults, complaints) == ([], [])
        await page.goto(f"file://{site}/search.html?q=quarantine")
        await page.wait_for_selector("#search-results li a[href]", timeout=30_000)
        # A result shows some words of its page, which a browser reads from a web server, and not from a folder.
        from_a_folder = ('URL scheme "file" is not supported', "Failed to fetch")
        assert [said for said in complaints if not any(words in said for words in from_a_folder)] == []
        await browser.close()


def test_the_navigation_has_each_section_of_the_index_with_pages_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    parts = importlib.import_module("site_pages").navigation((ROOT / "docs" / "README.md").read_text())
    assert [title for title, _ in parts][:2] == ["Begin", "Every day"]
    missing = [path for _, paths in parts for path in paths if not (ROOT / path).exists()]
    assert missing == ["docs/decisions/README.md", "docs/checklists/README.md"]  # the script makes these


@pytest.mark.feature("P4.table", "P6.reference")
@thorough
def test_the_reference_has_every_action_command_metric_event_and_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    reference = importlib.import_module("reference")
    pages, operations = reference.pages(), reference.operations(reference.document())
    rows = [line for line in pages["actions"].splitlines() if line.startswith("| [")]
    assert len(rows) == len(operations) > 200
    assert [row for row in rows if row.count(" | ") != 2 or re.search(r"— (it )?\|", row)] == []
    assert [
        line for line in COMMANDS if f"`{line}`" not in pages["actions"] and f"`{line} --" not in pages["actions"]
    ] == []
    assert [line for line in COMMANDS if f"\n## {line}\n" not in pages["commands"]] == []
    sections = "\n".join(text for name, text in pages.items() if name.startswith("api/"))
    assert [name for name in operations if f"`{name}`" not in sections] == []
    assert {"terracrew_jobs", "terracrew_requests_total", "terracrew_jobs_ended_total"} <= reference.metrics().keys()
    assert "`approval_wanted`" in pages["events"]
    assert "| `locked` | 409 | 5 |" in pages["exit-codes"]


def test_a_link_or_an_anchor_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#x"></a><a href="#top"></a><a href="c.html"></a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#top">1</a><a href="a.html#end">2</a><img src="p.png">')
    assert set(wrong_links(tmp_path)) == {
        ("a.html", "b.html#x"),
        ("a.html", "c.html"),
        ("b.html", "a.html#end"),
        ("b.html", "p.png"),
    }
