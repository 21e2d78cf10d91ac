"""Manages the providers of an organization and their rules.

Who controls a provider can log in as every user of the organization whom it may log in. So only owners of the whole organization
manage providers, only when they are logged in, and only administrators of the server change one that is trusted.
"""

import math
import time
from collections.abc import Awaitable, Callable

import msgspec

from terracrew import ids
from terracrew.api import fields
from terracrew.api.sso import (
    MAX_VALUE_CHARACTERS,
    LinkedIdentity,
    MappingRule,
    NewProvider,
    NewRule,
    ProviderChange,
    ProviderDetails,
)
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import roles
from terracrew.server.identity.federation import rules as issuer_rules
from terracrew.server.identity.federation.service import Trust
from terracrew.server.identity.people import oversight, user_reads
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import arrivals, role_mapping, sealing, store
from terracrew.server.identity.sso.model import SignInFailed, StoredProvider
from terracrew.server.paging import start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.wording import sso_words

MAX_PROVIDERS = 10
MAX_RULES = 200
MAX_PATTERNS = 50
"""How many of the rules have a pattern. All of them are compared with each group of a person while a login waits."""
MAX_PER_TRANSACTION = 200
"""How many people are evaluated again in one transaction."""
REQUEST_SECONDS = 5.0
"""How long a request that changes rules evaluates people. A loop goes on where there are very many."""
_DECIDING = ("groups_claim", "admit_claim", "admit_value")
"""The settings on which the roles of people depend, beside the rules."""
_ENTRA_CONSUMERS = "9188040d-6c67-4c5b-b112-36a304b66dad"
_ENTRA_HOST = "https://login.microsoftonline.com/"


async def listing(tx: Tx, who: Principal, trust: Trust) -> list[ProviderDetails]:
    await authorize.require(tx, who, Verb.ACCESS_READ, authorize.organization(who.organization_id))
    return [details(each, trust) for each in await store.providers(tx, who.organization_id or "")]


async def show(tx: Tx, who: Principal, reference: str, trust: Trust) -> ProviderDetails:
    return details(await readable(tx, who, reference), trust)


def details(provider: StoredProvider, trust: Trust) -> ProviderDetails:
    base = f"{trust.url}/login/sso/{provider.id}"
    return fields.created(
        ProviderDetails,
        provider,
        has_secret=provider.sealed is not None,
        redirect_uri=f"{base}/callback",
        backchannel_logout_uri=f"{base}/backchannel-logout",
        frontchannel_logout_uri=f"{base}/frontchannel-logout",
        post_logout_redirect_uri=f"{trust.url}/login",
    )


async def create(db: Database, keys: Keyring, trust: Trust, who: Principal, wanted: NewProvider) -> ProviderDetails:
    await db.read(lambda tx: require_manager(tx, who))
    issuer = issuer_rules.checked_issuer(wanted.issuer, trust.own_issuers, trust.allowed_origins)
    provider_id = ids.new("idp")

    async def work(tx: Tx) -> StoredProvider:
        await require_manager(tx, who)
        if wanted.is_trusted:
            await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
        if len(await store.providers(tx, who.organization_id or "")) >= MAX_PROVIDERS:
            raise Conflict(f"an organization has at most {MAX_PROVIDERS} providers: delete one that is not used")
        made = fields.created(
            StoredProvider,
            wanted,
            id=provider_id,
            organization_id=who.organization_id or "",
            name=wanted.name.strip(),
            issuer=issuer,
            client_id=wanted.client_id.strip(),
            scopes=_scopes(wanted.scopes),
            created_by=who.id,
            created_at=tx.moment,
            sealed=sealing.seal_client_secret(keys, provider_id, wanted.client_secret),
        )
        _check(made)
        await store.insert_provider(tx, made)
        await _record(tx, who, "sso.create_provider", made, {"issuer": issuer})
        return made

    return details(await _written(db, work, wanted.name), trust)


async def change(
    db: Database, keys: Keyring, trust: Trust, who: Principal, reference: str, wanted: ProviderChange
) -> ProviderDetails:
    """Change a provider. The sessions that began at one that is disabled, or not trusted any more, end; so do the sessions and roles
    of people who are not let in any more."""

    async def work(tx: Tx) -> StoredProvider:
        before = await _held(tx, who, reference)
        given = fields.given(wanted)
        secret = given.pop("client_secret", None)
        for name in given.keys() & {"name", "client_id"}:
            given[name] = given[name].strip()
        if "scopes" in given:
            given["scopes"] = _scopes(given["scopes"])
        after = msgspec.structs.replace(before, **given)
        if secret is not None:
            after = msgspec.structs.replace(after, sealed=sealing.seal_client_secret(keys, before.id, secret))
        if after.is_trusted and not before.is_trusted:
            await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
        _check(after)
        await store.save_provider(tx, after)
        if any(getattr(after, name) != getattr(before, name) for name in _DECIDING):
            await store.note_rules_changed(tx, before.id)
        if (before.is_enabled and not after.is_enabled) or (before.is_trusted and not after.is_trusted):
            await _end_sessions(tx, await store.sessions_of_provider(tx, after.id))
        changed = ", ".join(sorted(fields.given(wanted)))
        await _record(tx, who, "sso.change_provider", after, {"changed": changed})
        return after

    changed = await _written(db, work, str(fields.given(wanted).get("name", reference)))
    await evaluate_stale(db, REQUEST_SECONDS)
    return details(changed, trust)


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    """Delete a provider with its rules, the roles that they gave, and the sessions that began there. The users stay."""
    provider = await _held(tx, who, reference)
    await _end_sessions(tx, await store.sessions_of_provider(tx, provider.id))
    await role_mapping.take_all_away(tx, provider)
    await store.delete_provider(tx, provider.id)
    await _record(tx, who, "sso.delete_provider", provider, {})


async def rules(tx: Tx, who: Principal, reference: str) -> list[MappingRule]:
    return await store.rules(tx, (await readable(tx, who, reference)).id)


async def add_rule(db: Database, who: Principal, reference: str, wanted: NewRule) -> MappingRule:
    """Add a rule, and give at once the roles that follow from it to people whose claims are known."""

    async def work(tx: Tx) -> MappingRule:
        provider = await _held(tx, who, reference)
        known = await store.rules(tx, provider.id)
        if len(known) >= MAX_RULES:
            raise Conflict(f"a provider has at most {MAX_RULES} rules: use a pattern, or delete one that is not used")
        if wanted.is_pattern and sum(each.is_pattern for each in known) >= MAX_PATTERNS:
            raise Conflict(
                f"a provider has at most {MAX_PATTERNS} rules with a pattern: join some of them, or name the value"
            )
        made, group_id, module_id = await checked_rule(tx, who, wanted)
        await store.insert_rule(tx, provider.id, made, group_id, module_id, who.id)
        await store.note_rules_changed(tx, provider.id)
        await _record(tx, who, "sso.add_rule", provider, rule_words(made))
        return msgspec.structs.replace(made, created_by=who.id, created_at=tx.moment)

    made = await db.write(work)
    await evaluate_stale(db, REQUEST_SECONDS)
    return made


async def remove_rule(db: Database, who: Principal, reference: str, rule_id: str) -> None:
    """Remove a rule, and take away at once the roles that followed from it."""

    async def work(tx: Tx) -> None:
        provider = await _held(tx, who, reference)
        found = next((each for each in await store.rules(tx, provider.id) if each.id == rule_id), None)
        if found is None or not await store.delete_rule(tx, provider.id, rule_id):
            raise NotFound(f"{provider.name} has no rule {rule_id}")
        await store.note_rules_changed(tx, provider.id)
        await _record(tx, who, "sso.remove_rule", provider, rule_words(found))

    await db.write(work)
    await evaluate_stale(db, REQUEST_SECONDS)


async def checked_rule(tx: Tx, who: Principal, wanted: NewRule) -> tuple[MappingRule, str | None, str | None]:
    """Return the rule with the id of the group or of the module that it names."""
    claim = wanted.claim.strip()
    if not claim or not claim.isprintable():
        raise Invalid.in_field("claim", "name a claim, such as groups")
    value = wanted.value.strip()
    if not 0 < len(value) <= MAX_VALUE_CHARACTERS or not value.isprintable():
        raise Invalid.in_field("value", f"write 1 to {MAX_VALUE_CHARACTERS} printable characters")
    if wanted.is_pattern and not value.strip("*?"):
        raise Invalid.in_field("value", f"{value} matches everybody: say what the value must be")
    if wanted.is_pattern and value.count("*") > 10:
        raise Invalid.in_field("value", "a pattern has at most 10 `*`")
    place, group_id, module_id = await roles.find_place(tx, who.organization_id or "", wanted.path.strip("/"))
    is_module = place.kind == "module"
    made = MappingRule(ids.new("irl"), claim, wanted.is_pattern, value, wanted.role, place.path, is_module)
    return made, None if is_module else group_id, module_id if is_module else None


def rule_words(rule: MappingRule) -> dict[str, object]:
    return {"condition": sso_words.condition(rule), "role": rule.role.value, "path": rule.path}


async def link(tx: Tx, who: Principal, reference: str, subject: str, user: str) -> LinkedIdentity:
    """Link a person of a provider to a user. It is as much as a login link, so the rules for the reset of a user apply."""
    provider = await _held(tx, who, reference)
    found = await oversight.person(tx, who, user, Verb.ACCESS_WRITE, is_self_enough=False)
    if await user_reads.is_member_elsewhere(tx, found.id, found.organization_id):
        await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    try:
        if found.organization_id != provider.organization_id:
            raise SignInFailed("this user belongs to another organization")
        made = await arrivals.link(tx, provider, subject, found, who.id)
    except SignInFailed as failed:
        raise Conflict(failed.reason) from None
    words: dict[str, object] = {"user": found.name, "subject": subject}
    await _record(tx, who, "sso.link", provider, words)
    tx.wake("access", found.id)
    return next(each for each in await store.linked_of_user(tx, found.id) if each.id == made.id)


async def unlink(tx: Tx, who: Principal, reference: str, identity_id: str) -> None:
    """Remove the link between a person of a provider and a user, with the sessions and the roles that came from it."""
    provider = await _held(tx, who, reference)
    identity = await store.identity_of_id(tx, identity_id)
    if identity is None or identity.provider_id != provider.id:
        raise NotFound(f"{provider.name} has no person {identity_id}")
    await people_store.delete_sessions(tx, await store.sessions_of_identity(tx, identity.id))
    await store.delete_identity(tx, identity.id)
    await role_mapping.apply(tx, provider, [identity.user_id])
    await _record(tx, who, "sso.unlink", provider, {"subject": identity.subject})
    tx.wake("access", identity.user_id)


async def people(tx: Tx, who: Principal, reference: str, after: str | None, count: int) -> list[LinkedIdentity]:
    provider = await readable(tx, who, reference)
    return await store.linked(tx, provider.id, start(after), count)


async def evaluate_stale(db: Database, seconds: float = math.inf) -> int:
    """Evaluate everybody again whose roles follow from earlier rules, and return how many.

    After so many seconds the others are left to the loop, which does the same.
    """
    until, total = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        provider_id, users = await db.read(lambda tx: store.stale_users(tx, MAX_PER_TRANSACTION))
        if not users:
            return total + await _evaluate_provisioned(db, until)
        await db.write(lambda tx, one=provider_id, some=users: _evaluate(tx, one, some))
        total += len(users)
    return total


async def _evaluate_provisioned(db: Database, until: float) -> int:
    """Evaluate everybody whom an identity provider manages, for providers whose rules have changed. Many have never logged in."""
    total = 0
    for provider_id, version in await db.read(store.providers_with_new_rules):
        after = ""
        while found := await db.read(
            lambda tx, one=provider_id, last=after: store.provisioned_people(tx, one, last, MAX_PER_TRANSACTION)
        ):
            if time.monotonic() >= until:
                return total
            await db.write(lambda tx, one=provider_id, some=found: _evaluate(tx, one, some))
            total, after = total + len(found), found[-1]
        await db.write(lambda tx, one=provider_id, at=version: store.note_groups_version(tx, one, at))
    return total


async def _evaluate(tx: Tx, provider_id: str, user_ids: list[str]) -> None:
    """Make the roles of users those that follow now. Who would not be let in any more is logged out, too."""
    provider = await store.hold_provider(tx, provider_id)
    if provider is None:
        return
    for user_id, claims in (await store.claims_of_users(tx, provider.id, user_ids)).items():
        if not arrivals.is_admitted(provider, claims):
            await store.forget_claims_of_user(tx, provider.id, user_id)
            await _end_sessions(tx, await store.sessions_of_user(tx, provider.id, user_id))
    await role_mapping.apply(tx, provider, user_ids)


async def readable(tx: Tx, who: Principal, reference: str) -> StoredProvider:
    """Find a provider of the caller's organization, by id or name, for somebody who may see who has access."""
    await authorize.require(tx, who, Verb.ACCESS_READ, authorize.organization(who.organization_id))
    found = await store.providers(tx, who.organization_id or "")
    provider = next((each for each in found if reference in (each.id, each.name)), None)
    if provider is None:
        raise NotFound(f"there is no provider {reference[:100]!r} here")
    return provider


async def _held(tx: Tx, who: Principal, reference: str) -> StoredProvider:
    """Find a provider that the caller may change, and lock its row."""
    await require_manager(tx, who)
    found = await readable(tx, who, reference)
    provider = await store.hold_provider(tx, found.id)
    if provider is None:
        raise NotFound(f"there is no provider {reference[:100]!r} here")
    if provider.is_trusted:
        await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    return provider


async def require_manager(tx: Tx, who: Principal) -> None:
    """Refuse everybody who may not manage providers, before anything is said of what they want."""
    place = authorize.organization(who.organization_id)
    await authorize.require(tx, who, Verb.ACCESS_WRITE, place)
    delegation.require_login(who, "manage single sign-on, because whoever controls a provider can log in as others")
    if await roles.right_ends_at(tx, who, place) is not None:
        raise Forbidden("your own role ends, and what a provider gives would outlive it: ask another owner")


async def _end_sessions(tx: Tx, session_ids: list[str]) -> None:
    for user_id in await people_store.delete_sessions(tx, session_ids):
        tx.wake("access", user_id)


def _scopes(text: str) -> str:
    words = list(dict.fromkeys(["openid", *text.replace(",", " ").split()]))
    if not all(each.isascii() and each.isprintable() and not set('"\\') & set(each) for each in words):
        raise Invalid.in_field("scopes", "scopes are words of ASCII characters, separated by spaces")
    return " ".join(words)


def _check(provider: StoredProvider) -> None:
    if not provider.name or not provider.name.isprintable():
        raise Invalid.in_field("name", "write a name of printable characters, which the login page shows")
    for field in ("client_id", "name_claim", "groups_claim", "admit_claim", "admit_value"):
        if not getattr(provider, field).isprintable():
            raise Invalid.in_field(field, "there are characters that cannot be printed in it")
    if bool(provider.admit_claim) != bool(provider.admit_value):
        raise Invalid.in_field("admit_value", "give a claim and its value, or neither of them")
    if provider.admit_claim and not provider.admit_value.strip("*?"):
        raise Invalid.in_field("admit_value", f"{provider.admit_value} lets everybody in: say what the value must be")
    if provider.admit_claim.removeprefix("/") in issuer_rules.OWN_CLAIMS:
        raise Invalid.in_field("admit_claim", f"everybody has the claim {provider.admit_claim}: name another one")
    if provider.is_enabled and not provider.client_id:
        raise Invalid.in_field("client_id", "give the client id before the provider is enabled")
    if provider.is_enabled and provider.makes_users and not provider.admit_claim and serves_everybody(provider.issuer):
        raise Invalid.in_field(
            "admit_claim",
            f"everybody in the world can log in at {provider.issuer}: name a claim that only your people have (Google: hd), "
            "or turn off that a first login makes a user",
        )


def serves_everybody(issuer: str) -> bool:
    """Return whether people who have nothing to do with each other log in there. A tenant of Entra ID is one organization's own."""
    is_tenant = issuer.startswith(_ENTRA_HOST) and _ENTRA_CONSUMERS not in issuer
    return issuer_rules.is_public(issuer) and not is_tenant


async def _written(db: Database, work: Callable[[Tx], Awaitable[StoredProvider]], name: str) -> StoredProvider:
    try:
        return await db.write(work)
    except Conflict as error:
        if error.details.get("constraint") != "identity_providers_name":
            raise
        raise Conflict(f"there is a provider {name!r} already") from None


async def _record(tx: Tx, who: Principal, action: str, provider: StoredProvider, details: dict[str, object]) -> None:
    found = {"provider": provider.name, **details}
    await audit.record(tx, who, action, "provider", provider.id, found, organization_id=provider.organization_id)
    tx.wake("access", provider.organization_id)
