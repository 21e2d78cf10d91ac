"""Markdown that somebody published becomes HTML that can do nothing, in bounded time."""

import re
import time
from pathlib import Path

import pytest

from terracrew import __version__
from terracrew.releases import release_files
from terracrew.server.dashboard import markdown

pytestmark = pytest.mark.feature("V4.notes")
ROOT = Path(__file__).parents[3]
SIZE = 100_000
ALLOWED = re.compile(
    r"</?(?:p|pre|em|strong|s|code|ul|ol|li|blockquote|h4|h5|h6)>|<br />|<hr />|<pre tabindex=\"0\">|<ol start=\"[0-9]+\">|</a>"
    r"|<a href=\"(?:https?://|mailto:)[^\"<> ]*\"(?: title=\"[^\"<>]*\")? rel=\"noopener noreferrer nofollow\" class=\"link\">"
    r"|<span class=\"(?:new|del)\">|</span>"
)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <b onclick=alert(1)>b</b> <svg/onload=alert(1)>",
        "<!-- --><?x?><![CDATA[x]]>",
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](java\tscript:alert(1)) [d](&#106;avascript:alert(1))",
        "[a](data:text/html;base64,PHNjcmlwdD4=) [b](vbscript:x) [c](file:///etc/passwd) [d](//elsewhere.example) [e](/x)",
        "<javascript:alert(1)> <data:text/html,x> <https://good.example/?a=1&b=2> <ada@example.com>",
        "[r]: javascript:alert(1)\n\n[r] and ![r]",
        '[a](https://good.example "x\\" onmouseover=alert(1) y")',
        "[a](https://good.example/\"onmouseover='alert(1)')",
        "![i](https://elsewhere.example/i.png) ![i](data:image/svg+xml,x)",
        "```diff\n+<script>\n-</pre><script>alert(1)</script>\n```",
        "```<script>\nx\n```\n\n    <script>indented</script>",
        "# <h1>\n\n###### six\n\nsetext <x>\n===\n",
        "\x1b[31mred\x1b[0m \x00 \u202e reversed",
        "> " * 300 + "deep",
        "- " * 300 + "deep",
    ],
)
def test_hostile_markdown_becomes_harmless(text: str) -> None:
    html = str(markdown.to_html(text))
    rest = ALLOWED.sub("", html)
    assert "<" not in rest, html
    assert ">" not in rest, html
    assert "\x1b" not in html
    assert not re.search(r"<h[123]", html)


def test_links_of_people_work() -> None:
    html = markdown.to_html("[notes](https://example.com/a?b=1&c=2) and <ada@example.com>")
    assert 'href="https://example.com/a?b=1&amp;c=2" rel="noopener noreferrer nofollow"' in html
    assert 'href="mailto:ada@example.com"' in html


@pytest.mark.parametrize("piece", ["[", "![", "_*", "[x\n", "[a](", "`", "<a:", "[a](http://a) "])
def test_no_text_takes_long(piece: str) -> None:
    """A single paragraph of 100,000 brackets took seconds, in which the server answered nobody."""
    text = piece * (SIZE // len(piece))
    before = time.process_time()
    markdown.to_html(text)
    markdown.brief(text)
    assert time.process_time() - before < 2.5


def test_our_own_notes_are_drawn() -> None:
    notes = release_files.section_of((ROOT / "CHANGELOG.md").read_text(), __version__)
    assert notes is not None
    assert "<ul>" in markdown.to_html(notes)
