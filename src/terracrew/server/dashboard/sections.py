"""Pages of settings in sections. Each section has a form of its own, which is saved alone, so that nothing else is changed by it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Response
from litestar.response import Redirect

from terracrew.errors import NotFound, TerracrewError
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall

P = TypeVar("P")
C = TypeVar("C")


@dataclass(frozen=True)
class FormSection(Generic[P, C]):
    """A section of a page `P`, whose form asks for a change `C`."""

    title: str
    form: type[msgspec.Struct]
    typed: Callable[[P], msgspec.Struct]
    """Returns the settings as the form shows them."""
    wanted: Callable[[Any, P], C]
    """Returns the change that makes the settings what the form says."""


def find(sections: Mapping[str, FormSection[P, C]], name: str) -> FormSection[P, C]:
    if name not in sections:
        raise NotFound(f"these settings have no section `{name[:50]}`")
    return sections[name]


def placed(section: FormSection[P, C], error: TerracrewError) -> dict[str, str]:
    """Return the message of an error by the field of the form that it is about; of no field, by the empty name."""
    fields = section.form.__struct_fields__
    start, separator, rest = error.message.partition(": ")
    if separator and start in fields:
        return {start: rest}
    named = error.details.get("field", "")
    return {named if named in fields else "": error.message}


async def answer(
    request: DashboardCall,
    folder: str,
    sections: Mapping[str, FormSection[P, C]],
    page: P,
    here: str,
    changed: tuple[str, msgspec.Struct | None, dict[str, str]] | None = None,
    fragment: str = "sections/section.html",
) -> Response[Any]:
    """Show all sections, or to htmx only the one that was changed.

    `here` is the address of the page. `changed` is the name of the section, its form as it was typed, and what is wrong.
    """
    name, form, wrong = changed or ("", None, {})
    forms = {each: section.typed(page) for each, section in sections.items()}
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


async def saved(
    request: DashboardCall, folder: str, sections: Mapping[str, FormSection[P, C]], page: P, here: str, name: str
) -> Response[Any]:
    """Show a section as it is stored now. A browser without scripts is sent to the page with all of them."""
    if not render.is_fragment(request):
        return Redirect(f"{here}#section-{name}", status_code=303)
    shown = await answer(request, folder, sections, page, here, (name, None, {}))
    shown.headers["HX-Trigger"] = json.dumps({"said": f"Saved: {sections[name].title}"})
    return shown
