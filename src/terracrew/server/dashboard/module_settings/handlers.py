"""The handlers of a module's settings: the page with all sections, the change of one, of the path and the backend, and the deletion."""

from typing import Any, Literal

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath

from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TerracrewError, TooLarge
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard import sections as settings
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.module_settings import page
from terracrew.server.dashboard.module_settings.page import ModuleSettingsPage
from terracrew.server.dashboard.module_settings.sections import SECTIONS
from terracrew.server.dashboard.sections import FormSection
from terracrew.server.group_runs import module_move
from terracrew.server.jobs import module_deletion
from terracrew.server.tree.modules import service
from terracrew.server.tree.modules.model import ModuleChange

HERE = "/dashboard/modules"
_FOLDER = "module_settings"


class BackendForm(msgspec.Struct, frozen=True):
    backend: Literal["terracrew", "own"]


class PathForm(msgspec.Struct, frozen=True):
    to: str = ""


class DeletionForm(msgspec.Struct, frozen=True):
    force: bool = False
    """Whether its jobs and states are deleted, too, and it is deleted although others use its outputs."""


@get("/{module:str}/settings")
async def settings_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    found = await _read(request, module)
    return await settings.answer(request, _FOLDER, SECTIONS, found, _address(found))


@post("/{module:str}/settings/{section:str}", status_code=200)
async def change_section(request: DashboardCall, module: FromPath[str], section: FromPath[str]) -> Response[Any]:
    found, before = settings.find(SECTIONS, section), await _read(request, module)
    form = await forms.read(request, found.form)
    try:
        await _change(request, before, found.wanted(form, before))
    except (Invalid, NotFound, Conflict, TooLarge) as error:
        changed = section, form, _placed(found, error)
        return await settings.answer(request, _FOLDER, SECTIONS, before, _address(before), changed)
    after = await _read(request, module)
    return await settings.saved(request, _FOLDER, SECTIONS, after, _address(after), section)


@post("/{module:str}/backend", status_code=200)
async def change_backend(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await _read(request, module), await forms.read(request, BackendForm)
    try:
        await _change(request, before, ModuleChange(backend=form.backend))
    except (Invalid, Conflict) as error:
        return await _refused(request, before, "backend", error)
    return render.go(request, f"{HERE}/{before.module.id}")


@post("/{module:str}/move", status_code=200)
async def move(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await _read(request, module), await forms.read(request, PathForm)
    context, who, module_id = request.context, request.user, before.module.id
    try:
        await context.db.write(lambda tx: module_move.move(tx, who, module_id, form.to))
    except (Invalid, NotFound, Conflict, Forbidden) as error:
        wrong = "path", form, {"to": error.message.removeprefix("path: ")}
        template = f"{_FOLDER}/path.html"
        return await settings.answer(request, _FOLDER, SECTIONS, before, _address(before), wrong, template)
    return render.go(request, _address(before))


@post("/{module:str}/delete", status_code=200)
async def delete(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await _read(request, module), await forms.read(request, DeletionForm)
    context, who, module_id = request.context, request.user, before.module.id
    try:
        await context.db.write(lambda tx: module_deletion.delete(tx, context.keys, who, module_id, force=form.force))
    except Conflict as error:
        return await _refused(request, before, "delete", error)
    return render.go(request, render.group_url(before.groups[-1].path))


async def _refused(
    request: DashboardCall, before: ModuleSettingsPage, name: str, error: TerracrewError
) -> Response[Any]:
    """Show one of the two sections that have a button instead of fields, with what stands in the way."""
    wrong = name, None, {"": error.message}
    return await settings.answer(request, _FOLDER, SECTIONS, before, _address(before), wrong, f"{_FOLDER}/{name}.html")


def _address(found: ModuleSettingsPage) -> str:
    return f"{HERE}/{found.module.id}/settings"


async def _read(request: DashboardCall, module: str) -> ModuleSettingsPage:
    return await request.context.db.read_in_background(lambda tx: page.read(tx, request.user, module))


async def _change(request: DashboardCall, before: ModuleSettingsPage, change: ModuleChange) -> None:
    context, who, module_id = request.context, request.user, before.module.id
    await context.db.write(lambda tx: service.change(tx, who, module_id, change, context.local_roots, context.keys))


def _placed(section: FormSection[ModuleSettingsPage, ModuleChange], error: TerracrewError) -> dict[str, str]:
    """Return the message beside its field. Of all fields, only the runner names something that may not be found."""
    return {"runner": error.message} if isinstance(error, NotFound) else settings.placed(section, error)


pages = Router(
    HERE,
    route_handlers=[settings_page, change_section, change_backend, move, delete],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
