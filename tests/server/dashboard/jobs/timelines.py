"""Reads the timeline from the page of a job."""

import re
from typing import NamedTuple


class ShownPart(NamedTuple):
    mark: str
    title: str
    note: str
    is_now: bool


def shown(page: str) -> list[ShownPart]:
    """The parts of the timeline, in their order."""
    text = page[page.index('<ol class="timeline"') :]
    text = text[: text.index("</ol>")]
    found: list[ShownPart] = []
    for mark, now, item in re.findall(r'<li class="(\w+)"( aria-current="step")?>(.*?)</li>', text, re.DOTALL):
        heading, _, note = item[item.index("<b>") + 3 :].partition("</b>")
        title = re.sub(r"( for)? ?<.*", "", heading, flags=re.DOTALL)
        found.append(ShownPart(mark, title, re.sub(r"<[^>]+>", "", note), bool(now)))
    return found
