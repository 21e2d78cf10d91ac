"""The forms that register a runner and edit it: its record, and the settings that the server sends to its processes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api import fields
from terracrew.api.runners import Registered, Registration, Runner, RunnerChange, RunnerOptions, RunnerView
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FormField
from terracrew.server.dashboard.runners import page, start
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service


class RegisterForm(msgspec.Struct, frozen=True):
    """What a runner is called and where it is. Its settings are fields of their own."""

    name: str = ""
    group: str = ""
    assign: bool = False
    """Whether all modules of the group may use it at once: an unchecked box sends nothing."""


def record() -> list[FormField]:
    return field_forms.layout(RunnerOptions)


def registration(
    form: RegisterForm, typed: Mapping[str, str] | None = None, wrong: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return what the template of the form that registers a runner needs."""
    shown = record()
    texts = field_forms.to_form(shown, RunnerOptions()) | dict(typed or {})
    return {"form": form, "shown": shown, "texts": texts, "wrong": wrong or {}, "is_open": bool(typed)}


@get("/add")
async def add_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    groups = await request.read(forms.offer_groups, Verb.RUNNER_WRITE)
    shown = registration(RegisterForm(group=group, assign=True))
    return await render.page(request, "runners/add", "runners/register", groups=groups, made=None, **shown)


@post("/add", status_code=200)
async def add(request: DashboardCall) -> Response[Any]:
    """Register a runner. Only this answer contains its token."""
    form, typed = await forms.read(request, RegisterForm), await forms.read_texts(request)
    wrong, how = dict[str, str](), dict[str, Any](made=None)
    try:
        how = start.shown(await _register(request, form, typed))
    except (Invalid, Conflict) as error:
        wrong = field_forms.place_error(record(), error)
    groups = await request.read(forms.offer_groups, Verb.RUNNER_WRITE)
    fragment = "runners/register" if wrong else "runners/registered"
    shown = registration(form, typed, wrong)
    return await render.page(request, "runners/add", fragment, groups=groups, **shown, **how)


async def _register(request: DashboardCall, form: RegisterForm, typed: Mapping[str, str]) -> Registered:
    settings = field_forms.from_form(record(), typed, RunnerChange, RunnerOptions())
    new = Registration(name=form.name.strip(), group=form.group, assign=form.assign, **fields.given(settings))
    url, seconds = request.context.url, request.context.identity.tokens.worker_token_seconds
    key = request.context.release_key
    return await request.write(service.register, new, url, seconds, key)


@get("/{runner:str}/edit")
async def edit_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    return await _answer(request, runner, {}, None)


@post("/{runner:str}/edit", status_code=200)
async def save(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    typed = await forms.read_texts(request)

    async def work(tx: Tx, who: Principal) -> RunnerView:
        found = await service.changeable(tx, who, runner)
        change = field_forms.from_form(_shown(found), typed, RunnerChange, found)
        return await service.change(tx, who, runner, change)

    try:
        view = await request.write(work)
    except Invalid as error:
        return await _answer(request, runner, typed, error)
    return render.done(request, f"{view.path} is changed", page.address(view.id))


async def _answer(
    request: DashboardCall, runner: str, typed: Mapping[str, str], error: TerracrewError | None
) -> Response[Any]:
    found = await request.read(service.changeable, runner)
    shown = _shown(found)
    return await render.template(
        request,
        "runners/edit_page.html",
        runner=found,
        shown=shown,
        form=field_forms.to_form(shown, found) | dict(typed),
        wrong=field_forms.place_error(shown, error) if error else {},
    )


def _shown(runner: Runner) -> Sequence[FormField]:
    """Return the fields of a runner. The record of one that the server's settings declare is changed only there."""
    return [*([] if runner.is_declared else record()), *field_forms.layout(Runner, ["configuration"])]
