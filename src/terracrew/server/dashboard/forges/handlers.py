"""The handlers of the pages of connections to forges."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api import fields
from terracrew.api.forges import ForgeChange, ForgeTestResult
from terracrew.api.pull_requests import LinkForgeUser
from terracrew.errors import Conflict, Forbidden, Invalid, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.forges import page
from terracrew.server.dashboard.forges.page import FORM_WORDS, FORMS, HERE, ForgePage
from terracrew.server.forges import service
from terracrew.server.forges.applications import NewApplication
from terracrew.server.http import policy
from terracrew.server.pull_requests import service as pull_requests
from terracrew.wording import forge_words

FINISH = "/create/github/finish"


class NewForgeForm(msgspec.Struct, frozen=True):
    """Where a new connection is to be, and what it is, which the form sends along."""

    form: str = ""
    group: str = ""
    base_url: str = ""


class FinishForm(msgspec.Struct, frozen=True):
    """What GitHub has sent along, which the form sends back."""

    state: str = ""
    code: str = ""


class ForgeLinkForm(msgspec.Struct, frozen=True):
    forge_user: str = ""
    user: str = ""
    forge_user_id: str = ""


class ForgeUnlinkForm(msgspec.Struct, frozen=True):
    forge_user_id: str = ""


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    found = await request.read(page.read_list, request.context.forges, after)
    return await render.page(request, "forges/list", page=found)


@get("/create")
async def create_page(request: DashboardCall, group: FromQuery[str] = "", kind: FromQuery[str] = "") -> Response[Any]:
    """Show the form of a kind, or let the person choose one."""
    form = page.chosen_form(kind)
    found = await request.read(page.read_new, form or FORMS[0], group)
    if form is None:
        return await render.page(request, "forges/choose", page=found, form_words=FORM_WORDS)
    return await _form_answer(request, found, {}, None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form, typed = await forms.read(request, NewForgeForm, strip=True), await forms.read_texts(request)
    kind = page.chosen_form(form.form) or FORMS[0]
    found = await request.read(page.read_new, kind, form.group, form.base_url)
    try:
        change = field_forms.from_form(found.shown, typed, ForgeChange, found.empty)
        made = await request.context.forges.create(request.user, fields.changed(found.empty, change, group=form.group))
    except (Invalid, Conflict) as error:
        return await _form_answer(request, found, typed, error)
    return render.go(request, f"{HERE}/{made.id}")


@get("/create/github")
async def application_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    """Ask what an application of GitHub is made for."""
    found = await request.read(page.read_new, "github-app", group)
    return await _application_answer(request, NewApplication(name="", group=found.empty.group), {}, found)


@post("/create/github", status_code=200)
async def begin_application(request: DashboardCall) -> Response[Any]:
    """Show the manifest, which the browser then sends to GitHub."""
    asked = await forms.read(request, NewApplication, strip=True)
    try:
        sent = await request.context.applications.begin(request.user, asked, HERE + FINISH)
    except (Invalid, Conflict) as error:
        found = await request.read(page.read_new, "github-app", asked.group)
        return await _application_answer(request, asked, _wrong(error), found)
    answer = await render.template(request, "forges/manifest_page.html", asked=asked, sent=sent)
    answer.headers[policy.HEADER] = policy.content_policy(sent.origin)
    return answer


@get(FINISH)
async def finish_page(request: DashboardCall, code: FromQuery[str] = "") -> Response[Any]:
    """Ask whether to make the connection, after GitHub has made the application."""
    state = request.query_params.get("state", "")  # a parameter of this name would be the state of the application
    asked = request.context.applications.asked(request.user, state)
    return await render.page(request, "forges/finish", asked=asked, state=state, code=code)


@post(FINISH)
async def finish_application(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, FinishForm, strip=True)
    made = await request.context.applications.finish(request.user, form.state, form.code)
    return render.go(request, f"{HERE}/{made.id}")


@get("/{forge:str}")
async def forge_page(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    return await _form_answer(request, await _read(request, forge), {}, None)


@get("/{forge:str}/activity")
async def activity_page(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    found = await request.read(page.read_activity, request.context.forges, forge)
    return await render.page(request, "forges/activity", activity=found)


@post("/{forge:str}", status_code=200)
async def save(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    typed, found = await forms.read_texts(request), await _read(request, forge)
    try:
        change = field_forms.from_form(found.shown, typed, ForgeChange, found.settings)
        await request.context.forges.change(request.user, forge, change)
    except (Invalid, Conflict) as error:
        return await _form_answer(request, found, typed, error)
    return render.go(request, f"{HERE}/{forge}")


@post("/{forge:str}/test", status_code=200)
async def test(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    """Ask the forge what the connection may do, and show it."""
    tested = await request.context.forges.test(request.user, forge, "")
    return await _form_answer(request, await _read(request, forge), {}, None, tested)


@post("/{forge:str}/hook-secret", status_code=200)
async def replace_hook_secret(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    """Make another secret. Only this answer contains it."""
    made = await request.context.forges.replace_hook_secret(request.user, forge)
    return await render.page(request, "forges/secret", page=await _read(request, forge), made=made)


@post("/{forge:str}/repositories")
async def add_repository(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.NameForm, strip=True)
    made = await request.write(service.add_repository, forge, form.name)
    return render.done(request, f"{made.name} is watched", f"{HERE}/{forge}")


@post("/{forge:str}/repositories/{repository:str}/remove")
async def remove_repository(request: DashboardCall, forge: FromPath[str], repository: FromPath[str]) -> Response[Any]:
    await request.write(service.remove_repository, forge, repository)
    return render.done(request, "The repository is removed", f"{HERE}/{forge}")


@post("/{forge:str}/repositories/{repository:str}/hook")
async def repair_hook(request: DashboardCall, forge: FromPath[str], repository: FromPath[str]) -> Response[Any]:
    found = await request.context.forges.repair_hook(request.user, forge, repository)
    remark = f": {found.hook_message}" if found.hook_message else ""
    said = f"The hook of {found.name} is {forge_words.HOOKS[found.hook_status]}{remark}"
    return render.done(request, said, f"{HERE}/{forge}")


@post("/{forge:str}/deliveries/{delivery:str}/handle-again")
async def handle_again(request: DashboardCall, forge: FromPath[str], delivery: FromPath[str]) -> Response[Any]:
    await request.write(service.handle_again, forge, delivery)
    return render.done(request, "The delivery is handled again", f"{HERE}/{forge}")


@post("/{forge:str}/users")
async def link_user(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ForgeLinkForm, strip=True)
    made = await request.write(
        pull_requests.link_user, forge, forms.convert(msgspec.structs.asdict(form), LinkForgeUser)
    )
    return render.done(request, f"What {made.forge_user} writes there is done as {made.user}", f"{HERE}/{forge}")


@post("/{forge:str}/users/unlink")
async def unlink_user(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ForgeUnlinkForm)
    await request.write(pull_requests.unlink_user, forge, form.forge_user_id)
    return render.done(request, "The user of the forge does nothing here any more", f"{HERE}/{forge}")


@post("/{forge:str}/delete")
async def delete(request: DashboardCall, forge: FromPath[str]) -> Response[Any]:
    await request.write(service.delete, forge)
    return render.go(request, HERE)


async def _read(request: DashboardCall, forge: str) -> ForgePage:
    return await request.read(page.read_one, request.context.forges, forge)


async def _form_answer(
    request: DashboardCall,
    found: ForgePage,
    typed: Mapping[str, str],
    error: TerracrewError | None,
    tested: ForgeTestResult | None = None,
) -> Response[Any]:
    shown = found.shown
    wrong = field_forms.place_error(shown, error) if error else {}
    if isinstance(error, Invalid) and error.field == "base_url":
        wrong = {"base_url": error.reason}
    return await render.page(
        request,
        "forges/forge",
        page=found,
        activity=found.activity,
        shown=shown,
        tested=tested,
        form_words=FORM_WORDS,
        form=field_forms.show_form(shown, found.settings, typed),
        wrong=wrong,
    )


async def _application_answer(
    request: DashboardCall, asked: NewApplication, wrong: Mapping[str, str], found: ForgePage
) -> Response[Any]:
    if not found.offers:
        raise Forbidden("you may not make a connection to a forge: ask an owner of a group for a role")
    return await render.page(request, "forges/application", form=asked, wrong=wrong, groups=found.offers)


def _wrong(error: Invalid | Conflict) -> dict[str, str]:
    """Return what is wrong by its field; the empty field is for the whole form."""
    named = error.details.get("field")
    field = str(named) if named else "name" if "name" in error.details else ""
    return {field: error.message.removeprefix(f"{field}: ")}
