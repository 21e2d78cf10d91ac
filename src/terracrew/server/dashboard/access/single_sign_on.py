"""The pages of single sign-on: providers, their rules, and the last logins with their claims, the rules that match and what follows."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew import ids
from terracrew.api import fields
from terracrew.api.access import Role
from terracrew.api.sso import (
    DryRun,
    DryRunRule,
    LinkedIdentity,
    LoginPolicy,
    LoginSeen,
    MappingRule,
    NewProvider,
    NewRule,
    ProviderChange,
    ProviderDetails,
)
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FieldContext
from terracrew.server.db.seam import Tx
from terracrew.server.identity.federation.service import Trust
from terracrew.server.identity.sso import insight, policy, providers
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

HERE = "/dashboard/single-sign-on"
_FOLDER = "access/single_sign_on"
MAX_LOGINS = 20
MAX_PEOPLE = 100
ROLES = [(each.value, each.value.capitalize()) for each in Role]
_SECRET = {"client_secret": FieldContext(note="Leave it empty to keep the present one.")}
SHOWN = field_forms.layout(NewProvider, None, _SECRET)
"""The fields of the form of a provider. The issuer of one that exists cannot be changed."""
CHANGED = [each for each in SHOWN if each.name != "issuer"]


class ProvidersPage(msgspec.Struct, frozen=True):
    providers: list[ProviderDetails]
    policy: LoginPolicy
    may_change: bool


class ProviderPage(msgspec.Struct, frozen=True):
    provider: ProviderDetails
    rules: list[MappingRule]
    logins: list[LoginSeen]
    people: list[LinkedIdentity]
    may_change: bool

    @property
    def names(self) -> dict[str, MappingRule]:
        return {each.id: each for each in self.rules}


class RuleForm(msgspec.Struct, frozen=True):
    claim: str = "groups"
    value: str = ""
    is_pattern: bool = False
    role: str = Role.VIEWER.value
    path: str = ""
    replaces: str = ""
    """In a dry run: the rule that this one takes the place of."""
    only_remove: bool = False
    """In a dry run: that rule is removed, and no other one takes its place."""


class LinkForm(msgspec.Struct, frozen=True):
    subject: str = ""
    user: str = ""


async def read_list(tx: Tx, who: Principal, trust: Trust) -> ProvidersPage:
    found = await providers.listing(tx, who, trust)
    return ProvidersPage(found, await policy.show(tx, who), await _may_change(tx, who))


async def read_one(tx: Tx, who: Principal, provider: str, trust: Trust, before: str = "") -> ProviderPage:
    shown = await providers.show(tx, who, provider, trust)
    return ProviderPage(
        shown,
        await providers.rules(tx, who, shown.id),
        await insight.logins(tx, who, shown.id, before, MAX_LOGINS),
        await providers.people(tx, who, shown.id, None, MAX_PEOPLE),
        await _may_change(tx, who) and (who.is_system_admin or not shown.is_trusted),
    )


async def _may_change(tx: Tx, who: Principal) -> bool:
    return await authorize.may(tx, who, Verb.ACCESS_WRITE, authorize.organization(who.organization_id))


@get("/")
async def list_page(request: DashboardCall) -> Response[Any]:
    found = await request.read(read_list, _trust(request))
    return await render.page(request, f"{_FOLDER}/list", page=found)


@post("/policy")
async def change_policy(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, forms.SwitchForm)
    await request.write(policy.change, LoginPolicy(form.on))
    said = "People log in by single sign-on only" if form.on else "People may log in with passwords"
    return render.done(request, said, HERE)


@get("/create")
async def create_page(request: DashboardCall) -> Response[Any]:
    place = authorize.organization(request.user.organization_id)
    await authorize.require(request.context.db, request.user, Verb.ACCESS_WRITE, place)
    return await _form_answer(request, None, {}, None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    await request.read(providers.require_manager)
    typed, sso = await forms.read_texts(request), request.context.identity.sso
    empty = NewProvider(name="", issuer="")
    try:
        change = field_forms.from_form(CHANGED, typed, ProviderChange, empty)
        wanted = fields.changed(empty, change, issuer=typed.get("issuer", "").strip())
        made = await providers.create(sso.db, sso.keys, sso.trust, request.user, wanted)
    except (Invalid, Conflict) as error:
        return await _form_answer(request, None, typed, error)
    return render.go(request, f"{HERE}/{made.id}")


@get("/{provider:str}")
async def provider_page(request: DashboardCall, provider: FromPath[str], before: FromQuery[str] = "") -> Response[Any]:
    found = await request.read(read_one, provider, _trust(request), before)
    return await _page(request, found, RuleForm(), before=before)


@get("/{provider:str}/edit")
async def edit_page(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    found = await request.read(read_one, provider, _trust(request))
    return await _form_answer(request, found, {}, None)


@post("/{provider:str}/edit", status_code=200)
async def edit(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    typed, sso = await forms.read_texts(request), request.context.identity.sso
    found = await request.read(read_one, provider, sso.trust)
    try:
        change = field_forms.from_form(CHANGED, typed, ProviderChange, _settings(found))
        await providers.change(sso.db, sso.keys, sso.trust, request.user, provider, change)
    except (Invalid, Conflict) as error:
        return await _form_answer(request, found, typed, error)
    return render.go(request, f"{HERE}/{found.provider.id}")


@post("/{provider:str}/enable")
async def enable(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    form, sso = await forms.read(request, forms.SwitchForm), request.context.identity.sso
    change = ProviderChange(is_enabled=form.on)
    after = await providers.change(sso.db, sso.keys, sso.trust, request.user, provider, change)
    return render.go(request, f"{HERE}/{after.id}")


@post("/{provider:str}/delete")
async def delete(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    await request.write(providers.delete, provider)
    return render.go(request, HERE)


@post("/{provider:str}/rules", status_code=200)
async def add_rule(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, RuleForm, strip=True)
    try:
        await providers.add_rule(request.context.db, request.user, provider, _rule(form))
    except (Invalid, Conflict, NotFound) as error:
        return await _page(request, await _read(request, provider), form, wrong=error.message)
    return render.go(request, f"{HERE}/{provider}")


@post("/{provider:str}/dry-run", status_code=200)
async def dry_run(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    """Show whose roles a rule would change. Nothing is changed."""
    form = await forms.read(request, RuleForm, strip=True)
    try:
        rule = None if form.only_remove else _rule(form)
        found = await request.read(insight.dry_run, provider, DryRunRule(form.replaces, rule))
    except (Invalid, NotFound) as error:
        return await _page(request, await _read(request, provider), form, wrong=error.message)
    return await _page(request, await _read(request, provider), form, tried=found)


@post("/{provider:str}/rules/{mapping_rule:str}/remove")
async def remove_rule(request: DashboardCall, provider: FromPath[str], mapping_rule: FromPath[str]) -> Response[Any]:
    await providers.remove_rule(request.context.db, request.user, provider, ids.parse("irl", mapping_rule))
    return render.done(request, "The rule is removed, with the roles that followed from it", f"{HERE}/{provider}")


@post("/{provider:str}/people", status_code=200)
async def link_person(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, LinkForm, strip=True)
    try:
        await request.write(providers.link, provider, form.subject, form.user)
    except (Invalid, Conflict, NotFound) as error:
        return await _page(request, await _read(request, provider), RuleForm(), link=form, link_wrong=error.message)
    return render.go(request, f"{HERE}/{provider}")


@post("/{provider:str}/people/{person:str}/remove")
async def unlink_person(request: DashboardCall, provider: FromPath[str], person: FromPath[str]) -> Response[Any]:
    await request.write(providers.unlink, provider, ids.parse("iid", person))
    return render.done(request, "The link is removed, with its sessions and roles", f"{HERE}/{provider}")


async def _read(request: DashboardCall, provider: str) -> ProviderPage:
    return await request.read(read_one, provider, _trust(request))


async def _page(
    request: DashboardCall,
    found: ProviderPage,
    form: RuleForm,
    *,
    before: str = "",
    wrong: str = "",
    tried: DryRun | None = None,
    link: LinkForm | None = None,
    link_wrong: str = "",
) -> Response[Any]:
    return await render.page(
        request,
        f"{_FOLDER}/provider",
        page=found,
        form=form,
        before=before,
        wrong=wrong,
        tried=tried,
        link=link or LinkForm(),
        link_wrong=link_wrong,
        roles=ROLES,
        shown_logins=MAX_LOGINS,
    )


async def _form_answer(
    request: DashboardCall, found: ProviderPage | None, typed: Mapping[str, str], error: TerracrewError | None
) -> Response[Any]:
    shown = SHOWN if found is None else CHANGED
    return await render.page(
        request,
        f"{_FOLDER}/edit",
        provider=None if found is None else found.provider,
        shown=shown,
        form=field_forms.show_form(shown, _settings(found), typed),
        wrong=field_forms.place_error(shown, error) if error else {},
    )


def _settings(found: ProviderPage | None) -> NewProvider:
    if found is None:
        return NewProvider(name="", issuer="")
    return fields.created(NewProvider, found.provider, client_secret="")


def _rule(form: RuleForm) -> NewRule:
    if form.role not in [each.value for each in Role]:
        raise Invalid(f"{form.role[:40]!r} is not a role: choose one of {', '.join(Role)}")
    return NewRule(form.value, Role(form.role), form.path.strip("/"), form.claim, form.is_pattern)


def _trust(request: DashboardCall) -> Trust:
    return request.context.identity.sso.trust
