"""The form that edits a runner: its record, and the settings that the server sends to its processes."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.runners import ConfigurationChange, Runner, RunnerChange, RunnerView
from terracrew.errors import Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import page
from terracrew.server.db.seam import Tx
from terracrew.server.runners import service


class EditForm(msgspec.Struct, frozen=True):
    """The values as they were typed. Where one of the lower four is empty, the runner's own setting applies."""

    description: str = ""
    tags: str = ""
    max_jobs: str = ""
    allow_multiple_instances: bool = False
    heartbeat_seconds: str = ""
    log_level: str = ""
    batch_size_limit: str = ""
    period_seconds: str = ""


@get("/{runner:str}/edit")
async def edit_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    found = await request.context.db.read(lambda tx: service.changeable(tx, request.user, runner))
    return await render.page(request, "runners/edit_page.html", runner=found, form=_typed(found), wrong="")


@post("/{runner:str}/edit", status_code=200)
async def save(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, EditForm)

    async def work(tx: Tx) -> RunnerView:
        found = await service.changeable(tx, request.user, runner)
        return await service.change(tx, request.user, runner, _wanted(form, found))

    try:
        view = await request.context.db.write(work)
    except Invalid as error:
        found = await request.context.db.read(lambda tx: service.changeable(tx, request.user, runner))
        return await render.page(request, "runners/edit_page.html", runner=found, form=form, wrong=error.message)
    return render.done(request, f"{view.path} is changed", page.address(view.id))


def split(typed: str) -> list[str]:
    """Return the tags of a field: they are separated by commas, spaces or line ends."""
    return typed.replace(",", " ").split()


def limits(max_jobs: str) -> dict[str, int]:
    """Return the limit that was typed; nothing if the field is empty."""
    if not max_jobs.strip():
        return {}
    try:
        return {"max_jobs": int(max_jobs)}
    except ValueError:
        raise Invalid(f"`{max_jobs.strip()[:40]}` is not a whole number of jobs") from None


def _typed(found: Runner) -> EditForm:
    own = found.configuration
    numbers = [own.heartbeat_seconds, own.batch_size_limit, own.period_seconds]
    heartbeat, batch, period = ["" if each is None else f"{each:g}" for each in numbers]
    levels = "\n".join(f"{name}={level}" for name, level in own.log_level.items())
    return EditForm(
        description=found.description,
        tags=", ".join(found.tags),
        max_jobs=str(found.max_jobs),
        allow_multiple_instances=found.allow_multiple_instances,
        heartbeat_seconds=heartbeat,
        log_level=levels,
        batch_size_limit=batch,
        period_seconds=period,
    )


def _wanted(form: EditForm, before: Runner) -> RunnerChange:
    """Return the change to what the form says. A setting that the form leaves empty becomes the runner's own again.

    The form of a runner that the server's configuration declares has no fields for its record.
    """
    record = {} if before.is_declared else _record(form)
    levels: dict[str, str | None] = dict.fromkeys(before.configuration.log_level)
    for line in filter(None, map(str.strip, form.log_level.splitlines())):
        name, _, level = line.partition("=")
        levels[name.strip()] = level.strip().capitalize()
    numbers = {
        name: getattr(form, name).strip() or None
        for name in ("heartbeat_seconds", "batch_size_limit", "period_seconds")
    }
    try:
        configuration = msgspec.convert({**numbers, "log_level": levels}, ConfigurationChange, strict=False)
        return msgspec.structs.replace(msgspec.convert(record, RunnerChange), configuration=configuration)
    except msgspec.ValidationError as error:
        raise Invalid(f"these settings are not valid: {error}") from None


def _record(form: EditForm) -> dict[str, object]:
    return {
        "description": form.description.strip(),
        "tags": sorted(set(split(form.tags))),
        "allow_multiple_instances": form.allow_multiple_instances,
        **limits(form.max_jobs),
    }


handlers = [edit_page, save]
