"""The handlers of the pages of policies."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from msgspec.structs import replace

from terracrew.api import fields
from terracrew.api.policies import (
    MAX_REGO_CHARACTERS,
    MAX_TESTED_PLANS,
    NewPlanPolicy,
    NewPolicyVersion,
    PolicyActivation,
    PolicyChange,
    PolicySettings,
    PolicyTrial,
    PolicyVersionTrial,
    PolicyView,
)
from terracrew.errors import Conflict, Invalid, NotFound, RateLimited, TerracrewError, Unavailable
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.policies import page
from terracrew.server.dashboard.policies.page import HERE, MAX_SHOWN_PLANS, PolicyPage
from terracrew.server.db.seam import Tx
from terracrew.server.policies import service
from terracrew.server.principals.model import Principal

_SHOWN_ERRORS = (Invalid, Conflict, NotFound, RateLimited, Unavailable)


class PolicyPlaceForm(msgspec.Struct, frozen=True):
    """The place of a new policy, which the form sends along."""

    place: str = ""


class ActivationForm(msgspec.Struct, frozen=True):
    version: int


@get("/")
async def list_page(request: DashboardCall, place: FromQuery[str | None] = None) -> Response[Any]:
    return await render.page(request, "policies/list", page=await request.read(page.read_list, place))


@get("/create")
async def create_page(request: DashboardCall, place: FromQuery[str] = "") -> Response[Any]:
    return await _answer(request, await request.read(page.read_new, place), {}, None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    typed, found = await _read_new(request)
    try:
        settings = fields.changed(found.settings, _change(found, typed))
        wanted = {name: getattr(settings, name) for name in PolicySettings.__struct_fields__}
        new = msgspec.convert(wanted | {"place": found.place, "rego": _rego(typed)}, NewPlanPolicy)
        made = await request.context.policies.create(request.user, new)
    except _SHOWN_ERRORS as error:
        return await _answer(request, found, typed, error)
    except msgspec.ValidationError as error:
        return await _answer(request, found, typed, Invalid(str(error)))
    return render.go(request, f"{HERE}/{made.id}")


@post("/create/test", status_code=200)
async def try_new(request: DashboardCall) -> Response[Any]:
    """Show what a new policy would have said about earlier plans, beside its form."""
    typed, found = await _read_new(request)
    return await _tried(request, found, typed)


@get("/{policy:str}")
async def policy_page(
    request: DashboardCall, policy: FromPath[str], version: FromQuery[int | None] = None
) -> Response[Any]:
    return await _answer(request, await _read(request, policy, version), {}, None)


@post("/{policy:str}", status_code=200)
async def save(request: DashboardCall, policy: FromPath[str]) -> Response[Any]:
    typed = await forms.read_texts(request)

    async def work(tx: Tx, who: Principal) -> PolicyView:
        return await service.change(tx, who, policy, _change(await page.read_one(tx, who, policy), typed))

    try:
        await request.write(work)
    except _SHOWN_ERRORS as error:
        return await _answer(request, await _read(request, policy), typed, error)
    return render.go(request, f"{HERE}/{policy}")


@post("/{policy:str}/versions", status_code=200)
async def add_version(request: DashboardCall, policy: FromPath[str]) -> Response[Any]:
    typed = await forms.read_texts(request)
    try:
        made = await request.context.policies.add_version(request.user, policy, NewPolicyVersion(rego=_rego(typed)))
    except _SHOWN_ERRORS as error:
        return await _answer(request, await _read(request, policy), typed, error)
    return render.go(request, f"{HERE}/{policy}?version={made.newest_version}")


@post("/{policy:str}/test", status_code=200)
async def try_version(request: DashboardCall, policy: FromPath[str]) -> Response[Any]:
    """Show what the Rego that is typed would have said about earlier plans; as it is stored, what its newest version would have."""
    typed, found = await forms.read_texts(request), await _read(request, policy)
    if found.policy is None or _rego(typed) != found.policy.versions[0].rego:
        return await _tried(request, found, typed)
    try:
        tried = await request.context.trials.try_version(request.user, policy, PolicyVersionTrial())
    except _SHOWN_ERRORS as error:
        return await _answer(request, found, typed, error)
    return await _answer(request, replace(found, trial=tried), typed, None)


@post("/{policy:str}/activate")
async def activate(request: DashboardCall, policy: FromPath[str]) -> Response[Any]:
    asked = PolicyActivation(version=(await forms.read(request, ActivationForm)).version)
    await request.context.policies.activate(request.user, policy, asked)
    return render.go(request, f"{HERE}/{policy}")


@post("/{policy:str}/retire")
async def retire(request: DashboardCall, policy: FromPath[str]) -> Response[Any]:
    await request.write(service.retire, policy)
    return render.go(request, f"{HERE}/{policy}")


@post("/{policy:str}/delete")
async def delete(request: DashboardCall, policy: FromPath[str]) -> Response[Any]:
    found = await request.write(service.delete, policy)
    if found.module_id is not None:
        return render.go(request, f"/dashboard/modules/{found.module_id}")
    return render.go(request, f"/dashboard/groups/{found.group_id}")


async def _read(request: DashboardCall, policy: str, version: int | None = None) -> PolicyPage:
    return await request.read(page.read_one, policy, version)


async def _read_new(request: DashboardCall) -> tuple[dict[str, str], PolicyPage]:
    form, typed = await forms.read(request, PolicyPlaceForm), await forms.read_texts(request)
    return typed, await request.read(page.read_new, form.place)


async def _tried(request: DashboardCall, found: PolicyPage, typed: Mapping[str, str]) -> Response[Any]:
    try:
        zone = fields.changed(found.settings, _change(found, typed)).time_zone
        trial = PolicyTrial(place=found.place, rego=_rego(typed), last=MAX_TESTED_PLANS, time_zone=zone)
        tried = await request.context.trials.try_rego(request.user, trial)
    except _SHOWN_ERRORS as error:
        return await _answer(request, found, typed, error)
    return await _answer(request, replace(found, trial=tried), typed, None)


def _rego(typed: Mapping[str, str]) -> str:
    text = typed.get("rego", "").replace("\r\n", "\n")
    if not text.strip():
        raise Invalid.in_field("rego", "write the Rego of the policy")
    if len(text) > MAX_REGO_CHARACTERS:
        raise Invalid.in_field("rego", f"a policy has up to {MAX_REGO_CHARACTERS:,} characters")
    return text


def _change(found: PolicyPage, typed: Mapping[str, str]) -> PolicyChange:
    return field_forms.from_form(found.shown, typed, PolicyChange, found.settings)


async def _answer(
    request: DashboardCall, found: PolicyPage, typed: Mapping[str, str], error: TerracrewError | None
) -> Response[Any]:
    wrong = {} if error is None else field_forms.place_error(found.shown, error)
    if isinstance(error, Invalid) and error.field == "rego":
        wrong = {"rego": error.reason}
    return await render.page(
        request,
        "policies/policy",
        page=found,
        form=field_forms.show_form(found.shown, found.settings, typed),
        rego=typed.get("rego") or found.rego,
        wrong=wrong,
        most_plans=MAX_SHOWN_PLANS,
    )
