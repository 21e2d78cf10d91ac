"""The handlers of the pages of notifications."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api import fields
from terracrew.api.notifications import ChannelChange, ChannelTest, CreatedChannel
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.notifications import page
from terracrew.server.dashboard.notifications.page import FORM_WORDS, FORMS, HERE, ChannelPage
from terracrew.server.notifications import service


class NewForm(msgspec.Struct, frozen=True):
    """Where a new channel is to be, and what it is, which the form sends along."""

    place: str = ""
    form: str = ""


@get("/")
async def list_page(request: DashboardCall, place: FromQuery[str] = "") -> Response[Any]:
    found = await request.read(page.read_list, place)
    return await render.page(request, "notifications/list", page=found)


@get("/create")
async def create_page(request: DashboardCall, place: FromQuery[str] = "/", kind: FromQuery[str] = "") -> Response[Any]:
    """Show the form of a kind, or let the person choose one."""
    form = page.chosen_form(kind)
    found = await request.read(page.read_new, place, form or FORMS[0])
    if form is None:
        has_mail = request.context.channels.has_mail_server
        return await render.page(
            request, "notifications/choose", page=found, form_words=FORM_WORDS, has_mail_server=has_mail
        )
    return await _form_answer(request, found, {}, None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form, typed = await forms.read(request, NewForm), await forms.read_texts(request)
    found = await request.read(page.read_new, form.place, page.chosen_form(form.form) or FORMS[0])
    try:
        change = field_forms.from_form(found.shown, typed, ChannelChange, found.empty)
        made = await request.context.channels.create(request.user, fields.changed(found.empty, change))
    except (Invalid, Conflict) as error:
        return await _form_answer(request, found, typed, error)
    return await _made(request, made)


@get("/{channel:str}")
async def channel_page(request: DashboardCall, channel: FromPath[str]) -> Response[Any]:
    return await _form_answer(request, await request.read(page.read_one, channel), {}, None)


@post("/{channel:str}", status_code=200)
async def save(request: DashboardCall, channel: FromPath[str]) -> Response[Any]:
    typed, found = await forms.read_texts(request), await request.read(page.read_one, channel)
    try:
        change = field_forms.from_form(found.shown, typed, ChannelChange, found.settings)
        await request.context.channels.change(request.user, channel, change)
    except (Invalid, Conflict) as error:
        return await _form_answer(request, found, typed, error)
    return render.go(request, f"{HERE}/{channel}")


@post("/{channel:str}/test", status_code=200)
async def test(request: DashboardCall, channel: FromPath[str]) -> Response[Any]:
    """Send a message, and show what became of it."""
    result = await request.context.channels.test(request.user, channel)
    return await _form_answer(request, await request.read(page.read_one, channel), {}, None, result)


@post("/{channel:str}/secret", status_code=200)
async def replace_secret(request: DashboardCall, channel: FromPath[str]) -> Response[Any]:
    """Make another secret. Only this answer contains it."""
    return await _made(request, await request.context.channels.replace_secret(request.user, channel))


@get("/{channel:str}/deliveries")
async def deliveries_page(request: DashboardCall, channel: FromPath[str]) -> Response[Any]:
    found = await request.read(page.read_deliveries, channel)
    return await render.page(request, "notifications/deliveries", sent=found)


@post("/{channel:str}/deliveries/{notification:str}/send-again")
async def send_again(request: DashboardCall, channel: FromPath[str], notification: FromPath[str]) -> Response[Any]:
    found = await request.write(service.send_again, channel, notification)
    return render.done(request, f"{found.content.title} is sent again", f"{HERE}/{channel}")


@post("/{channel:str}/delete")
async def delete(request: DashboardCall, channel: FromPath[str]) -> Response[Any]:
    found = await request.read(service.show, channel)
    await request.write(service.delete, found.id)
    return render.go(request, render.query(HERE, place=found.place_id))


async def _made(request: DashboardCall, made: CreatedChannel) -> Response[Any]:
    """Show the secret of a channel, if it has one; otherwise its page."""
    if not made.secret:
        return render.go(request, f"{HERE}/{made.channel.id}")
    found = await request.read(page.read_one, made.channel.id)
    return await render.page(request, "notifications/secret", page=found, secret=made.secret)


async def _form_answer(
    request: DashboardCall,
    found: ChannelPage,
    typed: Mapping[str, str],
    error: TerracrewError | None,
    tested: ChannelTest | None = None,
) -> Response[Any]:
    shown = found.shown
    return await render.page(
        request,
        "notifications/channel",
        page=found,
        sent=found,
        shown=shown,
        tested=tested,
        form_words=FORM_WORDS,
        form=field_forms.show_form(shown, found.settings, typed),
        wrong=field_forms.place_error(shown, error) if error else {},
    )
