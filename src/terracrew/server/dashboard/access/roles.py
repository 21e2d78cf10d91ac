"""The access page of a group or a module: who has which role there, from where, and why somebody may do something."""

from contextlib import suppress
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from terracrew import ids
from terracrew.api.access import Explanation, Role, RoleListed
from terracrew.api.groups import Group
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.access import place, words
from terracrew.server.dashboard.access.place import AccessPlace, Effect, PlaceKind
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.identity.access import roles, users
from terracrew.server.principals.authorize import GRANTS, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import to_approve
from terracrew.server.tree.groups import service as groups

PAGE_ROWS = 100
MAX_NAMES = 200
"""How many names of users the fields for a person offer."""
VERBS = [verb for verb in Verb if verb in GRANTS[Role.OWNER]]
"""What can be asked about: everything that a role can allow."""
ROLE_NAMES = frozenset(role.value for role in Role)


class RoleRow(msgspec.Struct, frozen=True):
    role: RoleListed
    origin: Group | None
    """The group above that the role comes from; None if it is at this place."""
    stronger: RoleListed | None
    """Another role of the same principal that applies here and includes this one."""


class AccessQuestion(msgspec.Struct, frozen=True):
    """What was asked: whether somebody may do something at a place."""

    who: str = ""
    verb: Verb = Verb.JOB_RUN
    path: str = ""


class AccessPage(msgspec.Struct, frozen=True):
    place: AccessPlace
    people: list[RoleRow]
    accounts: list[RoleRow]
    names: list[str]
    next: str | None
    question: AccessQuestion
    answer: Explanation | None = None
    wrong: str = ""
    """Why the question has no answer."""


class GrantForm(msgspec.Struct, frozen=True):
    principal: str = ""
    role: str = Role.VIEWER.value
    days: str = ""


NEW_GRANT = GrantForm(days="30")
"""The form before anything is filled in: a role ends by itself unless somebody wants it to last."""


async def read_page(
    tx: Tx, who: Principal, kind: PlaceKind, reference: str, after: str | None, question: AccessQuestion
) -> AccessPage:
    at = await place.read(tx, who, kind, reference, Verb.ACCESS_READ)
    found = await roles.listing(tx, who, roles.RoleQuery(path=at.path, is_inherited=True), after, PAGE_ROWS)
    rows = sorted(
        (_row(at, each, found.items) for each in found.items),
        key=lambda row: (row.role.principal_name, -words.rank(row.role.role)),
    )
    question = msgspec.structs.replace(question, path=question.path or at.path)
    answer, wrong = await _answer(tx, who, question) if question.who else (None, "")
    return AccessPage(
        at,
        [row for row in rows if row.role.principal_kind == "user"],
        [row for row in rows if row.role.principal_kind == "service_account"],
        await _names(tx, who, found.items),
        found.next,
        question,
        answer,
        wrong,
    )


def _row(at: AccessPlace, role: RoleListed, others: list[RoleListed]) -> RoleRow:
    is_here = (role.place_kind, role.path) == (at.kind, at.path)
    origin = None if is_here else next((each for each in at.lineage if each.path == role.path), None)
    stronger = [
        each
        for each in others
        if each.principal_id == role.principal_id
        and each.id != role.id
        and (words.rank(each.role), each.id) > (words.rank(role.role), role.id)
    ]
    return RoleRow(role, origin, stronger[0] if stronger else None)


async def _answer(tx: Tx, who: Principal, question: AccessQuestion) -> tuple[Explanation | None, str]:
    try:
        return await to_approve.explain(tx, who, question.who, question.verb, question.path), ""
    except (NotFound, Forbidden, Invalid) as error:
        return None, error.message


async def _names(tx: Tx, who: Principal, listed: list[RoleListed]) -> list[str]:
    """Return the names that the fields for a person offer: of the listed people and, if the reader may see them, of all users."""
    names = {each.principal_name for each in listed if each.principal_kind == "user"}
    with suppress(Forbidden):
        names |= {user.name for user in (await users.listing(tx, who, None, MAX_NAMES)).items}
    return sorted(names - {""})


@get("/dashboard/access")
async def organization_access(request: DashboardCall) -> Response[Any]:
    """Lead to the access page of the organization, which is the root of the tree."""
    root = await request.read(groups.show, "")
    return Redirect(f"/dashboard/groups/{root.id}/access", status_code=303)


@get(["/dashboard/groups/{group:str}/access", "/dashboard/modules/{module:str}/access"])
async def access_page(
    request: DashboardCall,
    after: FromQuery[str | None] = None,
    who: FromQuery[str] = "",
    verb: FromQuery[Verb] = Verb.JOB_RUN,
    on: FromQuery[str] = "",
) -> Response[Any]:
    """Show who has which role at a group or module. With `who`, also answer whether they may do something `on` a place."""
    question = AccessQuestion(who.strip(), verb, on.strip().strip("/"))
    found = await request.read(read_page, *_place(request), after, question)
    shown: dict[str, Any] = {"at_place": found.place, "after": after, "form": NEW_GRANT, "wrong": "", "effect": None}
    return await render.page(request, "access/roles/access", page=found, verbs=VERBS, **shown)


@get(["/dashboard/groups/{group:str}/access/grant", "/dashboard/modules/{module:str}/access/grant"])
async def grant_page(
    request: DashboardCall, principal: FromQuery[str] = "", role: FromQuery[str] = ""
) -> Response[Any]:
    if not principal:
        return await _grant_answer(request, NEW_GRANT)
    form = GrantForm(principal, role if role in ROLE_NAMES else Role.VIEWER.value)
    return await _grant_answer(request, form)


@get(["/dashboard/groups/{group:str}/access/effect", "/dashboard/modules/{module:str}/access/effect"])
async def effect_part(
    request: DashboardCall,
    principal: FromQuery[str] = "",
    role: FromQuery[Role] = Role.VIEWER,
    days: FromQuery[str] = "",
) -> Response[Any]:
    """Say what a role would allow somebody to do, while the form is filled in."""
    form = GrantForm(principal.strip(), role.value, days)
    at, found, wrong = await request.read(_effect, *_place(request), form)
    shown: dict[str, Any] = {"at_place": at, "effect": found, "form": form, "wrong": wrong}
    return await render.template(request, "access/roles/effect.html", **shown)


@post(["/dashboard/groups/{group:str}/access/grant", "/dashboard/modules/{module:str}/access/grant"])
async def grant(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, GrantForm)

    async def work(tx: Tx, who: Principal) -> str:
        role, days = _role(form), forms.days(form.days)
        at = await place.read(tx, who, *_place(request), Verb.ACCESS_WRITE)
        await roles.bind_role(tx, who, form.principal.strip(), role, at.path, at.kind, days)
        return f"{at.base}/access"

    try:
        to = await request.write(work)
    except (Invalid, Conflict, NotFound) as error:
        return await _grant_answer(request, form, error.message)
    return render.go(request, to)


@post(
    [
        "/dashboard/groups/{group:str}/access/roles/{role_id:str}/revoke",
        "/dashboard/modules/{module:str}/access/roles/{role_id:str}/revoke",
    ]
)
async def revoke(request: DashboardCall, role_id: FromPath[str]) -> Response[Any]:
    async def work(tx: Tx, who: Principal) -> str:
        at = await place.read(tx, who, *_place(request), Verb.ACCESS_WRITE)
        await roles.unbind_role(tx, who, ids.parse("rol", role_id), at.place)
        return f"{at.base}/access"

    return render.done(request, "The role is revoked", await request.write(work))


async def _grant_answer(request: DashboardCall, form: GrantForm, wrong: str = "") -> Response[Any]:
    async def read(tx: Tx, who: Principal) -> dict[str, Any]:
        at, found, _ = await _effect(tx, who, *_place(request), form)
        return {"at_place": at, "effect": found, "names": await _names(tx, who, [])}

    shown = await request.read(read)
    return await render.page(request, "access/roles/grant", form=form, wrong=wrong, **shown)


async def _effect(
    tx: Tx, who: Principal, kind: PlaceKind, reference: str, form: GrantForm
) -> tuple[AccessPlace, Effect | None, str]:
    """Return the place, what the form would do there, and why that cannot be said. Only those who may grant a role are told."""
    at = await place.read(tx, who, kind, reference, Verb.ACCESS_WRITE)
    if not form.principal.strip():
        return at, None, ""
    try:
        return at, await place.read_effect(tx, at, form.principal.strip(), _role(form), forms.days(form.days)), ""
    except (NotFound, Invalid) as error:
        return at, None, error.message


def _role(form: GrantForm) -> Role:
    if form.role not in ROLE_NAMES:
        raise Invalid(f"{form.role[:40]!r} is not a role: choose one of {', '.join(Role)}")
    return Role(form.role)


def _place(request: DashboardCall) -> tuple[PlaceKind, str]:
    """Return what the address names: a group or a module, by its id or path."""
    kind: PlaceKind = "group" if "group" in request.path_params else "module"
    return kind, tree_path(request.path_params[kind])
