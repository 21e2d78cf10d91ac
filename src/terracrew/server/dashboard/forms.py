"""Forms: reads them into structs, says beside a field what is wrong with it, and shows pages of settings in sections."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Response
from litestar.response import Redirect

from terracrew.errors import Invalid, NotFound, TerracrewError
from terracrew.server.connections import reads as connections
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.search import patterns
from terracrew.server.http import choices
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service

MAX_NAME_CHARACTERS = 100
MAX_DAYS = 3650
MAX_RUNNERS = 300
"""How many runners a field offers. Others can be typed."""
MAX_INSTANCES = 300
F = TypeVar("F", bound=msgspec.Struct)
P = TypeVar("P")
C = TypeVar("C")
_FIELD = re.compile(r" - at `\$\.((\w+)[^`]*)`\Z")
_BOUND = re.compile(r"Expected `(?:int|float)` (>=|<=) (-?[0-9.]+)\Z")
_LENGTH = re.compile(r"Expected `str` of length <= ([0-9]+)\Z")
_WHOLE_NUMBER = re.compile(r"Expected `int[^`]*`, got `\w+`\Z")
_NUMBER = re.compile(r"Expected `float[^`]*`, got `\w+`\Z")


async def read(request: DashboardCall, kind: type[F]) -> F:
    """Return the fields of the form as this struct. Other fields, such as the token against forgery, are ignored."""
    given = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    if any("\0" in value for value in given.values()):
        raise Invalid("the form has a NUL character in it, which cannot be stored")
    try:
        return msgspec.convert(given, kind, strict=False)
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
        advice = _advice(choices.explained(_FIELD.sub("", text), kind, place))
        raise Invalid(advice, field=(fields or {}).get(name, name)) from None


def _advice(text: str) -> str:
    """Return what to write instead, from what msgspec says about a value."""
    if found := _BOUND.match(text):
        bound = float(found[2]) if "." in found[2] else int(found[2])
        return f"write a number of at {'least' if found[1] == '>=' else 'most'} {bound:,}"
    if found := _LENGTH.match(text):
        return f"write at most {int(found[1]):,} characters"
    if _WHOLE_NUMBER.match(text):
        return "write a whole number"
    return "write a number" if _NUMBER.match(text) else f"this is not valid: {text}"


def name(typed: str) -> str:
    """Return the name that was typed into a form, without spaces around it."""
    found = typed.strip()
    if not 1 <= len(found) <= MAX_NAME_CHARACTERS or not found.isprintable():
        raise Invalid(f"a name has 1 to {MAX_NAME_CHARACTERS} characters, all of them printable")
    return found


def days(typed: str) -> int | None:
    """Return the number of days that was chosen in a form; None for no end."""
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 4 and 1 <= int(typed) <= MAX_DAYS):
        raise Invalid(f"the number of days is 1 to {MAX_DAYS:,}, or nothing")
    return int(typed)


@dataclass(frozen=True)
class FormSection(Generic[P, C]):
    """A section of a page `P`, whose form asks for a change `C`."""

    title: str
    form: type[msgspec.Struct]
    to_form: Callable[[P], msgspec.Struct]
    """Returns the settings as the form shows them."""
    from_form: Callable[[Any, P], C]
    """Returns the change that makes the settings what the form says."""


def find_section(sections: Mapping[str, FormSection[P, C]], name: str) -> FormSection[P, C]:
    if name not in sections:
        raise NotFound(f"these settings have no section `{name[:50]}`")
    return sections[name]


def name_field(section: FormSection[P, C], error: TerracrewError) -> dict[str, str]:
    """Return the message of an error by the field of the form that it is about; of no field, by the empty name."""
    fields = section.form.__struct_fields__
    start, separator, rest = error.message.partition(": ")
    if separator and start in fields:
        return {start: rest}
    named = error.details.get("field", "")
    return {named if named in fields else "": error.message}


async def show_sections(
    request: DashboardCall,
    folder: str,
    sections: Mapping[str, FormSection[P, C]],
    page: P,
    here: str,
    changed: tuple[str, msgspec.Struct | None, dict[str, str]] | None = None,
    fragment: str = "section.html",
) -> Response[Any]:
    """Show all sections, or to htmx only the one that was changed.

    `here` is the address of the page. `changed` is the name of the section, its form as it was typed, and what is wrong.
    """
    name, form, wrong = changed or ("", None, {})
    forms = {each: section.to_form(page) for each, section in sections.items()}
    if form is not None:
        forms[name] = form
    return await render.page(
        request,
        f"{folder}/page.html",
        fragment,
        folder=folder,
        here=here,
        sections=sections,
        page=page,
        forms=forms,
        wrongs={name: wrong},
        name=name,
    )


async def show_saved(
    request: DashboardCall, folder: str, sections: Mapping[str, FormSection[P, C]], page: P, here: str, name: str
) -> Response[Any]:
    """Show a section as it is stored now. A browser without scripts is sent to the page with all of them."""
    if not render.is_fragment(request):
        return Redirect(f"{here}#section-{name}", status_code=303)
    shown = await show_sections(request, folder, sections, page, here, (name, None, {}))
    shown.headers["HX-Trigger"] = json.dumps({"said": f"Saved: {sections[name].title}"})
    return shown


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
