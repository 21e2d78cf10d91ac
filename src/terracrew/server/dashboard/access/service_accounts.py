"""Service accounts: their list, one account with its secrets, and the policies that let tokens of other issuers stand for it."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew import ids
from terracrew.api.access import AccountChange, ClientSecret, NewPolicy, RoleListed, ServiceAccount, TrustPolicy
from terracrew.api.runners import Runner
from terracrew.errors import Conflict, Forbidden, Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import roles, service
from terracrew.server.identity.federation import service as trust
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads

HERE = "/dashboard/service-accounts"
_FOLDER = "access/service_accounts"
PAGE_ROWS = 50
MAX_LISTED = 100
"""How many roles, and how many runners, the page of an account shows."""


class AccountsPage(msgspec.Struct, frozen=True):
    group: str
    accounts: list[ServiceAccount]
    next: str | None
    groups: list[str]
    """The paths of the groups in which the reader may create an account."""


class AccountPage(msgspec.Struct, frozen=True):
    account: ServiceAccount
    secrets: list[ClientSecret]
    policies: list[TrustPolicy]
    roles: list[RoleListed]
    runners: list[Runner]
    may_change: bool


class NewAccountForm(msgspec.Struct, frozen=True):
    name: str = ""
    group: str = ""


class SecretForm(msgspec.Struct, frozen=True):
    days: str = ""


class TrustForm(msgspec.Struct, frozen=True):
    issuer: str = ""
    audience: str = ""
    claims: str = ""
    """One on each line: NAME=VALUE."""
    is_reusable: bool = False
    days: str = ""


async def read_page(tx: Tx, who: Principal, group: str, after: str | None) -> AccountsPage:
    found = await service.accounts(tx, who, group, after, PAGE_ROWS)
    return AccountsPage(group, found.items, found.next, await forms.offer_groups(tx, who, Verb.ACCESS_WRITE))


async def read_one(tx: Tx, who: Principal, account_id: str) -> AccountPage:
    account = await service.show(tx, who, account_id)
    place = authorize.group(account.organization_id, account.group)
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    is_here = account.organization_id == who.organization_id
    query = roles.RoleQuery(principal=account.id)
    return AccountPage(
        account,
        await service.secrets(tx, who, account.id),
        await trust.policies(tx, who, account.id),
        (await roles.listing(tx, who, query, None, MAX_LISTED)).items if is_here else [],
        await reads.of_account(tx, seen, account.organization_id, account.id, MAX_LISTED),
        await authorize.may(tx, who, Verb.ACCESS_WRITE, place),
    )


@get("/")
async def list_page(
    request: DashboardCall, group: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[Any]:
    found = await request.read(read_page, group, after)
    shown: dict[str, Any] = {"page": found, "after": after, "wrong": "", "form": NewAccountForm("", group)}
    return await render.page(request, f"{_FOLDER}/list", **shown)


@get("/create")
async def create_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    return await _create_answer(request, NewAccountForm("", group), "")


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, NewAccountForm)
    try:
        made = await service.create_account(request.context.db, request.user, form.name.strip(), form.group)
    except (Invalid, Conflict) as error:
        return await _create_answer(request, form, error.message)
    return render.go(request, f"{HERE}/{made.id}")


async def _create_answer(request: DashboardCall, form: NewAccountForm, wrong: str) -> Response[Any]:
    groups = await request.read(forms.offer_groups, Verb.ACCESS_WRITE)
    if not groups:
        raise Forbidden("you may not create a service account: ask an owner of a group for a role")
    shown: dict[str, Any] = {"groups": groups, "form": form, "wrong": wrong}
    return await render.page(request, f"{_FOLDER}/create", **shown)


@get("/{account_id:str}")
async def account_page(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    found = await request.read(read_one, ids.parse("sac", account_id))
    return await render.page(request, f"{_FOLDER}/account", page=found)


@get("/{account_id:str}/secret")
async def secret_page(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    return await _form(request, account_id, "secret", secret="", wrong="")


@post("/{account_id:str}/secret", status_code=200)
async def create_secret(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    """Add a secret. Only this answer contains it."""
    form, it = await forms.read(request, SecretForm), ids.parse("sac", account_id)
    try:
        found, _, secret = await service.create_secret(request.context.db, request.user, it, forms.days(form.days))
    except (Invalid, Conflict) as error:
        return await _form(request, account_id, "secret", secret="", wrong=error.message)
    shown: dict[str, Any] = {"account": found, "secret": secret.text, "wrong": ""}
    return await render.page(request, f"{_FOLDER}/secret", f"{_FOLDER}/secret_created", **shown)


async def _form(request: DashboardCall, account_id: str, name: str, **shown: Any) -> Response[Any]:
    """Show a form about an account, to those who may change it."""
    found = await request.read(service.show, ids.parse("sac", account_id), Verb.ACCESS_WRITE)
    return await render.page(request, f"{_FOLDER}/{name}", account=found, **shown)


@post("/{account_id:str}/secrets/{secret_id:str}/revoke")
async def revoke_secret(request: DashboardCall, account_id: FromPath[str], secret_id: FromPath[str]) -> Response[Any]:
    it, secret = ids.parse("sac", account_id), ids.parse("sec", secret_id)
    await request.write(service.revoke_secret, it, secret)
    return render.done(request, "The secret is revoked", f"{HERE}/{account_id}")


@get("/{account_id:str}/rename")
async def rename_page(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    return await _form(request, account_id, "rename", new_name=None, rename_wrong="")


@post("/{account_id:str}/rename", status_code=200)
async def rename(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    form, it = await forms.read(request, forms.NameForm), ids.parse("sac", account_id)
    try:
        change = AccountChange(name=form.name.strip())
        await service.change_account(request.context.db, request.user, it, change)
    except (Invalid, Conflict) as error:
        return await _form(request, account_id, "rename", new_name=form.name, rename_wrong=error.message)
    return render.go(request, f"{HERE}/{it}")


@post("/{account_id:str}/disable")
async def disable(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    """Disable the account, or enable it again."""
    form, it = await forms.read(request, forms.SwitchForm), ids.parse("sac", account_id)
    change = AccountChange(is_disabled=form.on)
    after = await service.change_account(request.context.db, request.user, it, change)
    said = f"{after.name} is disabled, and what uses it is refused" if form.on else f"{after.name} is enabled"
    return render.done(request, said, f"{HERE}/{it}")


@post("/{account_id:str}/delete")
async def delete(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    await request.write(service.delete_account, ids.parse("sac", account_id))
    return render.go(request, HERE)


@get("/{account_id:str}/trust")
async def trust_page(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    return await _trust_form(request, account_id, TrustForm(), "")


@post("/{account_id:str}/trust", status_code=200)
async def add_trust(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    form, it = await forms.read(request, TrustForm), ids.parse("sac", account_id)
    try:
        wanted = NewPolicy(
            form.issuer.strip(), _claims(form.claims), form.audience.strip(), form.is_reusable, forms.days(form.days)
        )
        await trust.add(request.context.db, request.user, it, wanted, request.context.identity.federation.trust)
    except (Invalid, Conflict) as error:
        return await _trust_form(request, account_id, form, error.message)
    return render.go(request, f"{HERE}/{it}")


@post("/{account_id:str}/trust/{policy_id:str}/remove")
async def remove_trust(request: DashboardCall, account_id: FromPath[str], policy_id: FromPath[str]) -> Response[Any]:
    it, policy = ids.parse("sac", account_id), ids.parse("trp", policy_id)
    await request.write(trust.remove, it, policy)
    return render.done(request, "The issuer is no longer trusted by this policy", f"{HERE}/{it}")


async def _trust_form(request: DashboardCall, account_id: str, form: TrustForm, wrong: str) -> Response[Any]:
    own = request.context.identity.federation.trust.url
    return await _form(request, account_id, "trust", trust_form=form, trust_wrong=wrong, own_audience=own)


def _claims(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (line.strip() for line in text.splitlines()):
        if not line:
            continue
        name, separator, value = (part.strip() for part in line.partition("="))
        if not separator or name in found:
            raise Invalid(
                f"{line[:200]!r} is not NAME=VALUE, or its claim is given twice: write one claim on each line"
            )
        found[name] = value
    return found
