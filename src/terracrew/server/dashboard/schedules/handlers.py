"""The handlers of the pages of schedules."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api import fields
from terracrew.api.schedules import NewSchedule, ScheduleChange, ScheduleSettings, ScheduleView
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.schedules import page
from terracrew.server.dashboard.schedules.page import HERE, SchedulePage
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.schedules import service


class PlaceForm(msgspec.Struct, frozen=True):
    """The place of a new schedule, which the form sends along."""

    place: str = ""


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    found = await request.read(page.read_list, after)
    return await render.page(request, "schedules/list", page=found)


@get("/create")
async def create_page(request: DashboardCall, place: FromQuery[str] = "/") -> Response[Any]:
    return await _answer(request, await request.read(page.read_new, place), {}, None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form, typed = await forms.read(request, PlaceForm), await forms.read_texts(request)
    found = await request.read(page.read_new, form.place)
    try:
        change = field_forms.from_form(page.shown(), typed, ScheduleChange, page.EMPTY)
        settings = fields.changed(page.EMPTY, change)
        made = await request.write(service.create, fields.created(NewSchedule, settings, place=form.place))
    except (Invalid, Conflict) as error:
        return await _answer(request, found, typed, error)
    return render.go(request, _address(made))


@get("/{schedule:str}")
async def schedule_page(request: DashboardCall, schedule: FromPath[str]) -> Response[Any]:
    return await _answer(request, await request.read(page.read_one, schedule), {}, None)


@post("/{schedule:str}", status_code=200)
async def save(request: DashboardCall, schedule: FromPath[str]) -> Response[Any]:
    typed = await forms.read_texts(request)

    async def work(tx: Tx, who: Principal) -> ScheduleView:
        found = await service.show(tx, who, schedule)
        change = field_forms.from_form(page.shown(), typed, ScheduleChange, found)
        return await service.change(tx, who, schedule, change)

    try:
        made = await request.write(work)
    except (Invalid, Conflict) as error:
        return await _answer(request, await request.read(page.read_one, schedule), typed, error)
    return render.go(request, _address(made))


@post("/{schedule:str}/run")
async def run(request: DashboardCall, schedule: FromPath[str]) -> Response[Any]:
    await request.write(service.run, schedule, request.context.sources)
    return render.go(request, f"{HERE}/{schedule}")  # which says what was started


@post("/{schedule:str}/delete")
async def delete(request: DashboardCall, schedule: FromPath[str]) -> Response[Any]:
    found = await request.write(service.delete, schedule)
    kind, place = (
        ("modules", found.schedule.module_id) if found.schedule.module_id else ("groups", found.schedule.group_id)
    )
    return render.go(request, f"/dashboard/{kind}/{place}")


async def _answer(
    request: DashboardCall, found: SchedulePage, typed: Mapping[str, str], error: TerracrewError | None
) -> Response[Any]:
    shown, settings = page.shown(), found.settings
    return await render.page(
        request,
        "schedules/schedule",
        page=found,
        shown=shown,
        form=field_forms.show_form(shown, _plain(settings), typed),
        wrong=field_forms.place_error(shown, error) if error else {},
    )


def _plain(settings: ScheduleSettings) -> ScheduleSettings:
    return fields.created(ScheduleSettings, settings)


def _address(made: ScheduleView) -> str:
    return f"{HERE}/{made.id}"
