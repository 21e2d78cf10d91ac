"""The handlers of the pages of cloud identities."""

import asyncio
from typing import Any, Literal

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.clouds.model import CloudKind, Way
from terracrew.errors import Conflict, Forbidden, Invalid
from terracrew.server.cloud_hosted import identity_views, reporting
from terracrew.server.cloud_hosted.reporting import IdentityReport
from terracrew.server.cloud_identities import service
from terracrew.server.cloud_identities.model import IdentityChange, IdentityRecord, NewIdentity
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.cloud_identities import page
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.http.request import tree_path
from terracrew.server.principals.authorize import Verb

HERE = "/dashboard/cloud-identities"
LOOK_SECONDS = 12.0
"""How long an answer waits for the cloud. After that the look continues, and the page shows what it finds."""
_OF_KINDS: dict[CloudKind, tuple[str, ...]] = {
    "aws": ("role_arn", "region"),
    "kubernetes": ("api_url", "ca_certificate", "namespace"),
}
"""The fields that only identities of a cloud have."""


class IdentityForm(msgspec.Struct, frozen=True, kw_only=True):
    cloud: Literal["aws", "kubernetes"] = "aws"
    name: str = ""
    group: str = ""
    description: str = ""
    way: Way = "web_identity"
    role_arn: str = ""
    region: str = ""
    api_url: str = ""
    ca_certificate: str = ""
    namespace: str = ""
    audience: str = ""


def as_new(form: IdentityForm) -> NewIdentity:
    return NewIdentity(kind=form.cloud, group=form.group, **_typed(form, form.cloud))


def as_change(form: IdentityForm, kind: CloudKind) -> IdentityChange:
    """Return everything that the form has; the service finds out what has changed."""
    return IdentityChange(**_typed(form, kind))


def of_record(record: IdentityRecord) -> IdentityForm:
    settings: dict[str, Any] = msgspec.structs.asdict(record.settings)
    settings.pop("external_id", None)
    return IdentityForm(
        cloud=record.kind,
        name=record.name,
        group=record.group,
        description=record.description,
        audience=record.audience,
        **settings,
    )


def _typed(form: IdentityForm, kind: CloudKind) -> dict[str, Any]:
    fields = ("name", "description", "audience", *_OF_KINDS[kind])
    return {"way": form.way} | {field: getattr(form, field).strip() for field in fields}


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    issuer = request.context.identity.issuer.url
    found = await request.context.db.read_in_background(lambda tx: page.read_list(tx, request.user, issuer, after))
    return await render.page(
        request, "cloud_identities/list_page.html", "cloud_identities/list.html", page=found, after=after, **_words()
    )


@get("/create")
async def create_page(
    request: DashboardCall, cloud: FromQuery[str] = "aws", group: FromQuery[str] = ""
) -> Response[Any]:
    chosen = "kubernetes" if cloud == "kubernetes" else "aws"
    return await _create_answer(request, IdentityForm(cloud=chosen, group=group), {})


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, IdentityForm)
    try:
        made = await service.create(request.context.db, request.user, as_new(form))
    except (Invalid, Conflict) as error:
        return await _create_answer(request, form, _wrong(error))
    return render.go(request, f"{HERE}/{made.id}")


async def _create_answer(request: DashboardCall, form: IdentityForm, wrong: dict[str, str]) -> Response[Any]:
    groups = await request.context.db.read_in_background(lambda tx: page.read_groups(tx, request.user))
    if not groups:
        raise Forbidden("you may not create a cloud identity: ask an owner of a group for a role")
    return await _form_answer(request, form, wrong, groups, None)


@get("/{identity:str}")
async def identity_page(
    request: DashboardCall, identity: FromPath[str], show: FromQuery[str] = "json"
) -> Response[Any]:
    who, issuer = request.user, request.context.identity.issuer
    found = await request.context.db.read_in_background(
        lambda tx: page.read_one(tx, who, tree_path(identity), issuer.url, show)
    )
    problem = issuer.problem(request.context.identity.tokens.signing) if found.identity.way == "web_identity" else ""
    return await render.page(
        request,
        "cloud_identities/identity_page.html",
        "cloud_identities/identity.html",
        page=found,
        issuer_problem=problem,
        **_words(),
    )


@get("/{identity:str}/edit")
async def edit_page(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    found = await _changeable(request, identity)
    return await _form_answer(request, of_record(found), {}, [], found)


@post("/{identity:str}/edit", status_code=200)
async def edit(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    found, form = await _changeable(request, identity), await forms.read(request, IdentityForm)
    try:
        await service.change(request.context.db, request.user, found.id, as_change(form, found.kind))
    except (Invalid, Conflict) as error:
        return await _form_answer(request, form, _wrong(error), [], found)
    return render.go(request, f"{HERE}/{found.id}")


@post("/{identity:str}/test")
async def test(request: DashboardCall, identity: FromPath[str]) -> Response[Any]:
    who = request.user
    job = await request.context.db.write(lambda tx: identity_views.test(tx, who, tree_path(identity)))
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
    who = request.user
    await request.context.db.write(lambda tx: service.delete(tx, who, tree_path(identity)))
    return render.go(request, HERE)


async def _changeable(request: DashboardCall, identity: str) -> IdentityRecord:
    who = request.user
    return await request.context.db.read(lambda tx: service.find(tx, who, tree_path(identity), Verb.ACCESS_WRITE))


async def _form_answer(
    request: DashboardCall, form: IdentityForm, wrong: dict[str, str], groups: list[str], record: IdentityRecord | None
) -> Response[Any]:
    shown: dict[str, Any] = {"form": form, "wrong": wrong, "groups": groups, "record": record}
    return await render.page(
        request, "cloud_identities/form_page.html", "cloud_identities/form.html", **shown, **_words()
    )


def _wrong(error: Invalid | Conflict) -> dict[str, str]:
    """Return what is wrong by its field; the empty field is for the whole form."""
    named = error.details.get("field")
    field = str(named) if named else "name" if "name" in error.details else ""
    return {field: error.message.removeprefix(f"{field}: ")}


def _words() -> dict[str, Any]:
    return {"kinds": page.KINDS, "ways": page.WAYS}


pages = Router(
    HERE,
    route_handlers=[
        list_page,
        create_page,
        create,
        identity_page,
        edit_page,
        edit,
        test,
        look,
        delete,
    ],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
