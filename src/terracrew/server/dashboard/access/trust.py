"""The form that lets tokens of other issuers stand for a service account, and the removal of such a policy."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath

from terracrew import ids
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.identity.access import service as access
from terracrew.server.identity.federation import service
from terracrew.server.identity.federation.service import NewPolicy
from terracrew.server.principals.authorize import Verb

HERE = "/dashboard/service-accounts"


class TrustForm(msgspec.Struct, frozen=True):
    issuer: str = ""
    audience: str = ""
    claims: str = ""
    """One on each line: NAME=VALUE."""
    is_reusable: bool = False
    days: str = ""


@get("/{account_id:str}/trust")
async def trust_page(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    return await _answer(request, account_id, TrustForm(), "")


@post("/{account_id:str}/trust", status_code=200)
async def add_trust(request: DashboardCall, account_id: FromPath[str]) -> Response[Any]:
    form, it = await forms.read(request, TrustForm), ids.parse("sac", account_id)
    try:
        wanted = NewPolicy(
            form.issuer.strip(), _claims(form.claims), form.audience.strip(), form.is_reusable, forms.days(form.days)
        )
        trust = request.context.identity.federation.trust
        await service.add(request.context.db, request.user, it, wanted, trust)
    except (Invalid, Conflict) as error:
        return await _answer(request, account_id, form, error.message)
    return render.go(request, f"{HERE}/{it}")


@post("/{account_id:str}/trust/{policy_id:str}/remove")
async def remove_trust(request: DashboardCall, account_id: FromPath[str], policy_id: FromPath[str]) -> Response[Any]:
    who, it, policy = request.user, ids.parse("sac", account_id), ids.parse("trp", policy_id)
    await request.context.db.write(lambda tx: service.remove(tx, who, it, policy))
    return render.done(request, "The issuer is no longer trusted by this policy", f"{HERE}/{it}")


async def _answer(request: DashboardCall, account_id: str, form: TrustForm, wrong: str) -> Response[Any]:
    it = ids.parse("sac", account_id)
    found = await request.context.db.read(lambda tx: access.show(tx, request.user, it, Verb.ACCESS_WRITE))
    own = request.context.identity.federation.trust.url
    shown: dict[str, Any] = {"account": found, "trust_form": form, "trust_wrong": wrong, "own_audience": own}
    return await render.page(
        request, "access/service_accounts/trust_page.html", "access/service_accounts/trust.html", **shown
    )


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


pages = Router(
    HERE, route_handlers=[trust_page, add_trust, remove_trust], exception_handlers=HANDLERS, include_in_schema=False
)
