"""The handlers of the pages of published modules."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api import fields
from terracrew.api.registry import (
    NewPublishedVersion,
    PublishedModuleChange,
    PublishedModuleView,
    PublishedVersionChange,
)
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.registry import page
from terracrew.server.dashboard.registry.page import (
    EMPTY,
    HERE,
    MAX_SHOWN_USES,
    MAX_SHOWN_VERSIONS,
    NewPublishedForm,
    PublishedPage,
)
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.registry import publishing, service
from terracrew.server.tree.modules import archives


class PublisherForm(msgspec.Struct, frozen=True):
    """The group of a new published module, which the form sends along."""

    group: str = ""


class VersionForm(msgspec.Struct, frozen=True):
    """A version to publish, as it was typed."""

    version: str = ""
    archive: str = ""
    """The id of the archive that was uploaded."""
    archive_name: str = ""
    """The name of its file on the person's machine, only to be shown again."""


NO_VERSION = VersionForm()


class WithdrawalForm(msgspec.Struct, frozen=True):
    reason: str = ""


@get("/")
async def list_page(
    request: DashboardCall, q: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[Any]:
    return await render.page(request, "registry/list", page=await request.read(page.read_list, q, after))


@get("/create")
async def create_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    return await _answer(request, await request.read(page.read_new, group))


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form, typed = await forms.read(request, PublisherForm), await forms.read_texts(request)
    found = await request.read(page.read_new, form.group)
    try:
        change = field_forms.from_form(found.shown, typed, NewPublishedForm, EMPTY)
        made = await request.write(service.create, fields.changed(EMPTY, change, group=found.group.path))
    except (Invalid, Conflict) as error:
        return await _answer(request, found, typed, field_forms.place_error(found.shown, error))
    return render.go(request, f"{HERE}/{made.id}")


@get("/{published:str}")
async def published_page(
    request: DashboardCall, published: FromPath[str], version: FromQuery[str] = ""
) -> Response[Any]:
    found = await request.read(page.read_one, published, version, request.context.url)
    return await _answer(request, found)


@post("/{published:str}", status_code=200)
async def save(request: DashboardCall, published: FromPath[str]) -> Response[Any]:
    found = await request.read(page.read_to_change, published, request.context.url)
    typed = await forms.read_texts(request)

    async def work(tx: Tx, who: Principal) -> PublishedModuleView:
        change = field_forms.from_form(found.shown, typed, PublishedModuleChange, found.settings)
        return await service.change(tx, who, published, change)

    try:
        await request.write(work)
    except (Invalid, Conflict) as error:
        return await _answer(request, found, typed, field_forms.place_error(found.shown, error))
    return render.go(request, f"{HERE}/{published}")


@post("/{published:str}/versions", status_code=200)
async def publish(request: DashboardCall, published: FromPath[str]) -> Response[Any]:
    """Publish an archive that the page has uploaded."""
    found = await request.read(page.read_to_change, published, request.context.url)
    form = await forms.read(request, VersionForm, strip=True)
    try:
        made = await publishing.publish(request.context.publishing, request.user, published, _wanted(form))
    except (Invalid, Conflict, NotFound) as error:
        return await _answer(request, found, wrong=_place(error), new=form)
    return render.go(request, render.query(f"{HERE}/{published}", version=made.version))


@get("/{published:str}/versions/{exactly:str}/withdraw")
async def withdraw_page(request: DashboardCall, published: FromPath[str], exactly: FromPath[str]) -> Response[Any]:
    """Ask for the reason, and name the modules that have fetched the version. Only the button of the page withdraws it."""
    module, version, used = await request.read(page.read_withdrawal, published, exactly)
    return await render.template(
        request,
        "registry/withdraw_page.html",
        module=module,
        version=version,
        uses=used,
        most_uses=MAX_SHOWN_USES,
    )


@post("/{published:str}/versions/{exactly:str}/withdraw")
async def withdraw(request: DashboardCall, published: FromPath[str], exactly: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, WithdrawalForm)
    change = PublishedVersionChange(is_withdrawn=True, reason=form.reason.strip())
    await request.write(service.change_version, published, exactly, change)
    return render.go(request, render.query(f"{HERE}/{published}", version=exactly))


@post("/{published:str}/versions/{exactly:str}/restore")
async def restore(request: DashboardCall, published: FromPath[str], exactly: FromPath[str]) -> Response[Any]:
    await request.write(service.change_version, published, exactly, PublishedVersionChange(is_withdrawn=False))
    return render.go(request, render.query(f"{HERE}/{published}", version=exactly))


@post("/{published:str}/look")
async def look(request: DashboardCall, published: FromPath[str]) -> Response[Any]:
    await request.write(service.look, published)
    return render.go(request, f"{HERE}/{published}")


@post("/{published:str}/delete")
async def delete(request: DashboardCall, published: FromPath[str]) -> Response[Any]:
    await request.write(service.delete, published)
    return render.go(request, HERE)


def _wanted(form: VersionForm) -> NewPublishedVersion:
    """Return the version that a form describes. Raises Invalid if something is missing or too long; the domain checks the rest."""
    if not form.version:
        raise Invalid.in_field("version", "write three numbers, such as 1.2.3")
    if not form.archive:
        raise Invalid.in_field("archive_id", "choose an archive, and wait until it is uploaded")
    return forms.convert({"version": form.version, "archive_id": form.archive}, NewPublishedVersion)


def _place(error: TerracrewError) -> dict[str, str]:
    """Return what is wrong with a version by its field. Only the number can be in conflict with other versions."""
    message = error.reason if isinstance(error, Invalid) else error.message
    is_number = isinstance(error, Conflict) or (isinstance(error, Invalid) and error.field == "version")
    return {"version" if is_number else "archive": message}


async def _answer(
    request: DashboardCall,
    found: PublishedPage,
    typed: Mapping[str, str] = MappingProxyType({}),
    wrong: Mapping[str, str] = MappingProxyType({}),
    new: VersionForm = NO_VERSION,
) -> Response[Any]:
    return await render.page(
        request,
        "registry/published",
        page=found,
        form=field_forms.show_form(found.shown, found.settings, typed),
        wrong=wrong,
        new=new,
        new_fields=field_forms.layout(NewPublishedVersion, ["version"]),
        max_archive_bytes=archives.MAX_ARCHIVE_BYTES,
        most_versions=MAX_SHOWN_VERSIONS,
        most_uses=MAX_SHOWN_USES,
    )
