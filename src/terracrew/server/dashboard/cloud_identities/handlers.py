"""The handlers of the pages of cloud identities."""

import asyncio
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api import fields
from terracrew.api.cloud_identities import IdentityChange, IdentityReport, NewIdentity
from terracrew.errors import Conflict, Forbidden, Invalid
from terracrew.server.cloud_hosted import identity_views, reporting
from terracrew.server.cloud_identities import service
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.cloud_identities import page
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http.request import tree_path
from terracrew.server.principals.authorize import Verb

HERE = "/dashboard/cloud-identities"
LOOK_SECONDS = 12.0
"""How long an answer waits for the cloud. After that the look continues, and the page shows what it finds."""


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    issuer = request.context.identity.issuer.url
    found = await request.read(page.read_list, issuer, after)
    return await render.page(request, "cloud_identities/list", page=found, after=after, **_words())


@get("/create")
async def create_page(
    request: DashboardCall, cloud: FromQuery[str] = "aws", group: FromQuery[str] = ""
) -> Response[Any]:
    chosen = "kubernetes" if cloud == "kubernetes" else "aws"
    form = NewIdentity(name="", kind=chosen, group=group)
    return await _form_answer(request, form, {}, await _groups(request), None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    groups = await _groups(request)
    form = await forms.read(request, NewIdentity, strip=True)
    try:
        made = await service.create(request.context.db, request.user, form)
    except (Invalid, Conflict) as error:
        return await _form_answer(request, form, _wrong(error), groups, None)
    return render.go(request, f"{HERE}/{made.id}")


async def _groups(request: DashboardCall) -> list[str]:
    """Return the groups in which the person may create a cloud identity; refuse who may do so in none."""
    if groups := await request.read(forms.offer_groups, Verb.ACCESS_WRITE):
        return groups
    raise Forbidden("you may not create a cloud identity: ask an owner of a group for a role")


@get("/{identity:str}")
async def identity_page(
    request: DashboardCall, identity: FromPath[str], show: FromQuery[str] = "json"
) -> Response[Any]:
    issuer = request.context.identity.issuer
    found = await request.read(page.read_one, tree_path(identity), issuer.url, show)
    problem = issuer.problem(request.context.identity.tokens.signing) if found.identity.way == "web_identity" else ""
    return await render.page(
        request,
        "cloud_identities/identity",
        page=found,
        issuer_problem=problem,
        **_words(),
    )


@get("/{identity:str}/edit")
async def edit_page(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    found = await _changeable(request, identity)
    return await _form_answer(request, service.as_new(found), {}, [], found)


@post("/{identity:str}/edit", status_code=200)
async def edit(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    found, change = await _changeable(request, identity), await forms.read(request, IdentityChange, strip=True)
    try:
        await service.change(request.context.db, request.user, found.id, change)
    except (Invalid, Conflict) as error:
        form = msgspec.structs.replace(service.as_new(found), **fields.given(change))
        return await _form_answer(request, form, _wrong(error), [], found)
    return render.go(request, f"{HERE}/{found.id}")


@post("/{identity:str}/test")
async def test(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    job = await request.write(identity_views.test, tree_path(identity))
    return render.done(request, f"Job #{job.number:,} tests {job.target_name}", f"{HERE}/{job.identity_id}")


@post("/{identity:str}/look")
async def look(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    """Ask the cloud what of ours is in the account. If that takes long, the page shows it later."""
    context, who, reference = request.context, request.user, tree_path(identity)
    looking = asyncio.create_task(
        reporting.look(context.db, context.cloud_calls, who, reference, context.identity.issuer.url)
    )
    done, _ = await asyncio.wait([looking], timeout=LOOK_SECONDS)
    if not done:
        context.tasks.start(_finish(looking))
        return render.done(request, "The cloud has not answered yet. The page shows it later", f"{HERE}/{identity}")
    found = looking.result()
    count = f"{len(found.resources):,} {'resource' if len(found.resources) == 1 else 'resources'}"
    return render.done(
        request, f"{count} of ours {'is' if len(found.resources) == 1 else 'are'} there", f"{HERE}/{identity}"
    )


async def _finish(looking: "asyncio.Task[IdentityReport]") -> None:
    await looking


@post("/{identity:str}/delete")
async def delete(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    await request.write(service.delete, tree_path(identity))
    return render.go(request, HERE)


async def _changeable(request: DashboardCall, identity: str) -> IdentityRecord:
    return await request.read(service.find, tree_path(identity), Verb.ACCESS_WRITE)


async def _form_answer(
    request: DashboardCall, form: NewIdentity, wrong: dict[str, str], groups: list[str], record: IdentityRecord | None
) -> Response[Any]:
    shown: dict[str, Any] = {"form": form, "wrong": wrong, "groups": groups, "record": record}
    return await render.page(request, "cloud_identities/form", **shown, **_words())


def _wrong(error: Invalid | Conflict) -> dict[str, str]:
    """Return what is wrong by its field; the empty field is for the whole form."""
    named = error.details.get("field")
    field = str(named) if named else "name" if "name" in error.details else ""
    return {field: error.message.removeprefix(f"{field}: ")}


def _words() -> dict[str, Any]:
    return {"kinds": page.KINDS, "ways": page.WAYS, "badge_of_test": page.badge_of_test}
