"""Renders Markdown that somebody published as HTML that can do nothing: no HTML of its own, no images, no scripts in links."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from terracrew.wording import escapes

MAX_BRIEF_CHARACTERS = 140
MAX_PARAGRAPH_CHARACTERS = 10_000
MAX_PARAGRAPH_BRACKETS = 1_000
_MAX_CACHED_TEXTS = 128
"""Pages show the same texts again and again: a published module has up to 101."""
_MAX_LOOKED_AT_CHARACTERS = 2_000
"""How much of a text the search for its first sentence looks at."""
_BLOCK_START = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)]|#{1,6})\s")
_LINKS = ("http://", "https://", "mailto:")
_HEADINGS = {"h1": "h4", "h2": "h4", "h3": "h4", "h4": "h5", "h5": "h6", "h6": "h6"}
"""The headings of a text are below the heading of the release that it belongs to, which is an `h3`."""
_DIFF_LINES: dict[str, Literal["new", "del"]] = {"+": "new", "-": "del"}


@lru_cache(maxsize=_MAX_CACHED_TEXTS)
def to_html(text: str) -> Markup:
    """Return a text as HTML. Everything in it that is not Markdown is shown as it was written.

    A text with a very long paragraph, or with very many brackets in one, is shown as it was written as a whole: the parser takes
    quadratic time for some paragraphs.
    """
    parser, shown = _parser(), escapes.plain(text)
    if _is_slow(shown):
        return Markup('<pre tabindex="0">{}</pre>\n').format(shown)
    tokens = parser.parse(shown)
    for token in tokens:
        token.tag = _HEADINGS.get(token.tag, token.tag)
    html = parser.renderer.render(tokens, parser.options, {})
    return Markup(html)  # noqa: S704 - the parser lets no HTML through and escapes every text


@lru_cache(maxsize=_MAX_CACHED_TEXTS)
def brief(text: str) -> str:
    """Return the first sentence of a text without its marks, with code in backquotes; a heading only if there is nothing else."""
    heading = ""
    is_heading = False
    for token in _parser().parse(escapes.plain(text[:_MAX_LOOKED_AT_CHARACTERS])):
        if token.type == "inline":
            words = " ".join(_words(token.children or []).split())
            if words and not is_heading:
                return _cut(words)
            heading = heading or words
        is_heading = token.type == "heading_open"
    return _cut(heading)


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
    made.disable(["image", "html_block", "html_inline"])
    made.enable("strikethrough")
    made.validateLink = _is_safe  # pyright: ignore[reportAttributeAccessIssue] - the documented way to replace it
    made.add_render_rule("link_open", _link_open)
    made.add_render_rule("fence", _code)
    made.add_render_rule("code_block", _code)
    return made


def _is_slow(text: str) -> bool:
    """Return whether a run of lines that can be one paragraph is so long, or has so many brackets, that the parser takes seconds."""
    size = brackets = 0
    for line in text.split("\n"):
        if not line.strip() or _BLOCK_START.match(line):
            size = brackets = 0
        size += len(line) + 1
        brackets += line.count("[")
        if size > MAX_PARAGRAPH_CHARACTERS or brackets > MAX_PARAGRAPH_BRACKETS:
            return True
    return False


def _is_safe(address: str) -> bool:
    return address.strip().lower().startswith(_LINKS)


def _link_open(self: RendererHTML, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
    tokens[idx].attrSet("rel", "noopener noreferrer nofollow")
    tokens[idx].attrSet("class", "link")
    return self.renderToken(tokens, idx, options, env)


def _code(_: RendererHTML, tokens: Sequence[Token], idx: int, *_more: Any) -> str:
    """Render a block of code. In the language `diff`, the added and the removed lines are marked."""
    token = tokens[idx]
    if token.info.strip() != "diff":
        return f'<pre tabindex="0">{escape(token.content)}</pre>\n'
    lines = "\n".join(_diff_line(line) for line in token.content.splitlines())
    return f'<pre tabindex="0">{lines}</pre>\n'


def _diff_line(line: str) -> str:
    kind = _DIFF_LINES.get(line[:1])
    return f'<span class="{kind}">{escape(line)}</span>' if kind else str(escape(line))


def _words(tokens: Sequence[Token]) -> str:
    return "".join(
        f"`{each.content}`"
        if each.type == "code_inline"
        else " "
        if each.type in ("softbreak", "hardbreak")
        else each.content
        for each in tokens
    )


def _cut(words: str) -> str:
    end = words.find(". ")
    first = words[: end + 1] if end > 0 else words
    return first if len(first) <= MAX_BRIEF_CHARACTERS else f"{first[: MAX_BRIEF_CHARACTERS - 1].rstrip()}…"
