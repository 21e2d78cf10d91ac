"""Reads filters: comparisons by `eq`, joined by `and`. They are data for statements with parameters, and nothing evaluates them."""

import re
from typing import Any

import msgspec

from terracrew.server.scim.errors import ScimRefusal

MAX_FILTER_CHARACTERS = 1000
MAX_COMPARISONS = 5
_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[A-Za-z$][\w.$:-]*)|(?P<number>-?[0-9]{1,15})|(?P<other>\S))'
)


class FilterComparison(msgspec.Struct, frozen=True):
    attribute: str
    """In small letters, without the name of the schema."""
    value: str | bool | int


def parse(text: str) -> tuple[FilterComparison, ...]:
    """Return the comparisons that all must be true."""
    if len(text) > MAX_FILTER_CHARACTERS:
        raise ScimRefusal(400, f"a filter has at most {MAX_FILTER_CHARACTERS} characters", "invalidFilter")
    tokens = list(_TOKEN.finditer(text))
    found: list[FilterComparison] = []
    position = 0
    while True:
        three = tokens[position : position + 3]
        if len(three) < 3 or three[0]["word"] is None or (three[1]["word"] or "").lower() != "eq":
            raise _unknown(text)
        found.append(FilterComparison(attribute_name(three[0]["word"]).lower(), _value(three[2], text)))
        position += 3
        if position == len(tokens):
            return tuple(found)
        if (tokens[position]["word"] or "").lower() != "and" or len(found) == MAX_COMPARISONS:
            raise _unknown(text)
        position += 1


def attribute_name(text: str) -> str:
    """Return a name without that of the schema before it: `urn:ietf:params:scim:schemas:core:2.0:User:userName`."""
    return text.rpartition(":")[2] if text.lower().startswith("urn:") else text


def _value(token: re.Match[str], text: str) -> str | bool | int:
    if token["text"] is not None:
        try:
            value = msgspec.json.decode(token["text"].encode(), type=str)
        except msgspec.DecodeError:
            raise _unknown(text) from None
        if not value.isprintable():  # a NUL, which no database takes
            raise _unknown(text)
        return value
    if token["number"] is not None:
        return int(token["number"])
    if (word := (token["word"] or "").lower()) in ("true", "false"):
        return word == "true"
    raise _unknown(text)


def _unknown(text: str) -> ScimRefusal:
    shown = text[:100] if text.isprintable() else "this"
    words = f"{shown} is not a filter that is known here: compare by `eq`, and join at most {MAX_COMPARISONS} comparisons by `and`"
    return ScimRefusal(400, words, "invalidFilter")


def matching(comparisons: tuple[FilterComparison, ...], items: list[dict[str, Any]]) -> list[bool]:
    """Return which items of a list, such as the members of a group, have all these values. Their names are in small letters."""
    found = [True] * len(items)
    for each in comparisons:
        given = [item.get(each.attribute) for item in items]
        if isinstance(each.value, str):
            wanted = each.value.casefold()
            same = [isinstance(one, str) and one.casefold() == wanted for one in given]
        else:
            kind = type(each.value)
            same = [type(one) is kind and one == each.value for one in given]
        found = [first and second for first, second in zip(found, same, strict=True)]
    return found
