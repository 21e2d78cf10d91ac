"""The handlers of the pages of drift."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.drift import AskDriftCheck, DriftFilter, NewMute
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.server.dashboard import forms, render, words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.drift import page
from terracrew.server.dashboard.drift.page import HERE, ModuleDriftPage, MuteDefaults
from terracrew.server.drift import service
from terracrew.server.http.request import tree_path


class CheckForm(msgspec.Struct, frozen=True):
    """A button that has a module checked."""

    is_full: bool = False


class MuteForm(msgspec.Struct, frozen=True):
    address: str = ""
    reason: str = ""
    until: str = ""
    """The day before which nothing is said, such as 2026-12-31."""


class UnmuteForm(msgspec.Struct, frozen=True):
    mute: str = ""


@get("/")
async def list_page(
    request: DashboardCall,
    only: FromQuery[str] = "drifted",
    place: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
) -> Response[Any]:
    chosen: DriftFilter = only if only in words.DRIFT_FILTERS else "drifted"
    found = await request.read(page.read_list, chosen, place, after)
    return await render.page(request, "drift/list", page=found)


@get("/{module:str}")
async def module_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    found = await request.read(page.read_one, tree_path(module))
    return await render.page(request, "drift/module", page=found)


@post("/{module:str}/check")
async def check(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, CheckForm)
    await request.write(service.ask, AskDriftCheck(tree_path(module), is_refresh_only=not form.is_full))
    return render.done(request, "It is checked as soon as none of its jobs runs", f"{HERE}/{module}")


@post("/{module:str}/reconcile")
async def reconcile(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    context = request.context
    job = await service.reconcile(context.db, context.create_job, request.user, tree_path(module))
    return render.go(request, f"/dashboard/jobs/{job.id}")


@get("/{module:str}/mute")
async def mute_page(request: DashboardCall, module: FromPath[str], address: FromQuery[str] = "") -> Response[Any]:
    found = await request.read(page.read_mute, tree_path(module))
    return await _mute_answer(request, found, page.mute_defaults(address, datetime.now(UTC).date()), None)


@post("/{module:str}/mute", status_code=200)
async def mute(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    found = await request.read(page.read_mute, tree_path(module))
    form = await forms.read(request, MuteForm, strip=True)
    try:
        await request.write(service.mute, NewMute(found.module.id, form.address, form.reason, _day(form.until)))
    except (Invalid, Conflict) as error:
        return await _mute_answer(request, found, MuteDefaults(form.address, form.until, form.reason), error)
    return render.go(request, f"{HERE}/{found.module.id}")


@post("/{module:str}/unmute")
async def unmute(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, UnmuteForm)
    found = await request.write(service.unmute, form.mute)
    return render.done(request, f"{found.address} is not muted any more", f"{HERE}/{module}")


def _day(typed: str) -> datetime:
    try:
        found = forms.day(typed)
    except ValueError:
        found = None
    if found is None:
        raise Invalid.in_field("until", "write a day such as 2026-12-31")
    return found


async def _mute_answer(
    request: DashboardCall, found: ModuleDriftPage, form: MuteDefaults, error: TerracrewError | None
) -> Response[Any]:
    wrong: dict[str, str] = {}
    if error is not None:
        field = error.field if isinstance(error, Invalid) and error.field in ("until", "reason") else ""
        wrong[field or ""] = error.reason if field and isinstance(error, Invalid) else error.message
    return await render.page(request, "drift/mute", page=found, form=form, wrong=wrong)
