"""Forms: reads them into structs, and says of a value that is not valid what to write instead, and in which field."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import msgspec

from terracrew.errors import Invalid
from terracrew.server.connections import reads as connections
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import patterns
from terracrew.server.http import choices
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service
from terracrew.server.tree.groups import reads as group_reads

MAX_NAME_CHARACTERS = 100
MAX_DAYS = 3650
MAX_GROUPS = 300
"""How many groups a field offers. Others can be typed."""
MAX_RUNNERS = 300
"""How many runners a field offers. Others can be typed."""
MAX_INSTANCES = 300
F = TypeVar("F", bound=msgspec.Struct)
_FIELD = re.compile(r" - at `\$\.((\w+)[^`]*)`\Z")
_BOUND = re.compile(r"Expected `(?:int|float)` (>=|<=) (-?[0-9.]+)\Z")
_LENGTH = re.compile(r"Expected `str` of length <= ([0-9]+)\Z")
_ITEMS = re.compile(r"Expected `array` of length >= ([0-9]+)\Z")
_WHOLE_NUMBER = re.compile(r"Expected `int[^`]*`, got `\w+`\Z")
_NUMBER = re.compile(r"Expected `float[^`]*`, got `\w+`\Z")


class SwitchForm(msgspec.Struct, frozen=True):
    """A button that turns something on or off."""

    on: bool


class ForceForm(msgspec.Struct, frozen=True):
    """A button that ends something, although it may still be needed if the box beside it is checked."""

    force: bool = False


class NameForm(msgspec.Struct, frozen=True):
    """A form that renames something."""

    name: str = ""


async def read_texts(request: DashboardCall) -> dict[str, str]:
    """Return what was typed, by the names of the fields. Several texts of one field, such as checked boxes, are separated by commas."""
    given: dict[str, str] = {}
    for name, value in (await request.form()).multi_items():
        if isinstance(value, str):
            given[name] = ", ".join(filter(None, (given.get(name, ""), value)))
    if any("\0" in value for value in given.values()):
        raise Invalid("the form has a NUL character in it, which cannot be stored")
    return given


async def read(request: DashboardCall, kind: type[F], *, strip: bool = False) -> F:
    """Return the fields of the form as this struct. Other fields, such as the token against forgery, are ignored.

    With `strip`, spaces around what was typed are left out.
    """
    found = (await read_texts(request)).items()
    typed = {name: text.strip() if strip else text for name, text in found if name in kind.__struct_fields__}
    try:
        return msgspec.convert(typed, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the form is not valid: {error}") from None


def convert(values: Mapping[str, Any], kind: type[F], fields: Mapping[str, str] | None = None) -> F:
    """Return what was typed as this struct, which has limits for its values.

    The error for a value that is not valid names its field: `fields` has those of the form that are called otherwise in the struct.
    """
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _FIELD.search(text)
        place, name = (found[1], found[2]) if found else ("", "")
        words = advice(choices.explained(_FIELD.sub("", text), kind, place))
        raise Invalid(words, field=(fields or {}).get(name, name)) from None


def advice(text: str) -> str:
    """Return what to write instead, from what msgspec says about a value."""
    if found := _BOUND.match(text):
        bound = float(found[2]) if "." in found[2] else int(found[2])
        return f"write a number of at {'least' if found[1] == '>=' else 'most'} {bound:,}"
    if found := _LENGTH.match(text):
        return f"write at most {int(found[1]):,} characters"
    if found := _ITEMS.match(text):
        return f"choose at least {'one' if found[1] == '1' else found[1]}"
    if _WHOLE_NUMBER.match(text):
        return "write a whole number"
    return "write a number" if _NUMBER.match(text) else f"this is not valid: {text}"


def name(typed: str) -> str:
    """Return the name that was typed into a form, without spaces around it."""
    found = typed.strip()
    if not 1 <= len(found) <= MAX_NAME_CHARACTERS or not found.isprintable():
        raise Invalid(f"a name has 1 to {MAX_NAME_CHARACTERS} characters, all of them printable")
    return found


def split(typed: str) -> list[str]:
    """Return the words of a field: they are separated by commas, spaces or line ends."""
    return typed.replace(",", " ").split()


def day(typed: str) -> datetime | None:
    """Return the beginning of a day, in UTC; None for one so late that it has none after it. Raises ValueError."""
    found = date.fromisoformat(typed)
    return datetime(found.year, found.month, found.day, tzinfo=UTC) if found.year < 9999 else None


def days(typed: str) -> int | None:
    """Return the number of days that was chosen in a form; None for no end."""
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 4 and 1 <= int(typed) <= MAX_DAYS):
        raise Invalid(f"the number of days is 1 to {MAX_DAYS:,}, or nothing")
    return int(typed)


async def offer_groups(tx: Tx, who: Principal, verb: Verb) -> list[str]:
    """Return the paths of the first groups in which the reader may do something."""
    allowed = await authorize.visible(tx, who, verb)
    return await group_reads.paths(tx, who.organization_id or "", allowed, MAX_GROUPS)


class RunnerChoices(msgspec.Struct, frozen=True):
    paths: list[str]
    instances: list[str]
    """The names of the connected instances."""


async def offer_runners(tx: Tx, who: Principal) -> RunnerChoices:
    found = await _first_runners(tx, who)
    return RunnerChoices(await reads.paths(tx, found), await connections.connected_names(tx, found, MAX_INSTANCES))


async def offer_runner_paths(tx: Tx, who: Principal) -> list[str]:
    return await reads.paths(tx, await _first_runners(tx, who))


async def _first_runners(tx: Tx, who: Principal) -> list[str]:
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    within = reads.RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who))
    return await reads.by_path(tx, seen, within, None, patterns(""), 0, MAX_RUNNERS)
