"""Explains why a user or a service account may do something at a place, or what is missing.

The answer comes from `authorize.decide`, which also decides about every request.
"""

from typing import Literal

from terracrew.api.access import Explanation, PlaceStep, Role, RoleListed, ServiceAccount, User
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_reads, roles, subjects
from terracrew.server.identity.people import store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import GRANTS, WORDS, AccessDecision, Place, Verb
from terracrew.server.principals.model import Principal

MAX_GRANTERS = 10
"""How many of those who can grant a missing role are named."""


async def explain(tx: Tx, who: Principal, principal: str, verb: Verb, path: str) -> Explanation:
    """Explain what a principal may do at a group or module of the caller's organization.

    Everybody may ask about themselves where they may see the place. To ask about others takes the right to see who has access
    there. A place that the caller may not see and one that does not exist get the same answer.
    """
    authorize.require_reader(who)
    organization_id = who.organization_id or ""
    place, group_id, module_id = await roles.find_place(tx, organization_id, path)
    is_own = principal in (subjects.ME, who.id) or (principal == who.name and who.kind == "user")
    own = await authorize.decide(tx, who, Verb.TREE_READ, place)
    if own.is_hidden:
        raise roles.no_place(path)
    if not is_own:
        await authorize.require(tx, who, Verb.ACCESS_READ, place, roles.no_place(path))
    subject = await _subject(tx, who, organization_id, principal, is_own=is_own)
    decision = await authorize.decide(tx, subjects.principal(subject, organization_id), verb, place)
    is_allowed = decision.is_allowed and not subject.is_disabled
    is_grantable = not is_allowed and not subject.is_disabled and _sufficient(verb)
    # Somebody without any role learns of nobody's roles, not even of those at the organization.
    granters = (
        await role_reads.owners_of(tx, group_id, module_id, MAX_GRANTERS) if is_grantable and own.is_allowed else []
    )
    held = {each.id: each for each in await role_reads.of_principal(tx, subject.id, organization_id)}
    return Explanation(
        "user" if isinstance(subject, User) else "service_account",
        subject.id,
        subject.name,
        verb,
        WORDS[verb],
        _kind(place),
        path,
        is_allowed,
        "disabled" if subject.is_disabled else decision.reason,
        _sentence(subject, verb, place, decision),
        _steps(place, decision, held),
        held.get(decision.deciding.id) if is_allowed and decision.deciding else None,
        _sufficient(verb) if is_grantable else [],
        granters,
    )


async def _subject(
    tx: Tx, who: Principal, organization_id: str, principal: str, *, is_own: bool
) -> User | ServiceAccount:
    if is_own and who.kind == "user":
        return await store.user(tx, who.id)
    return await subjects.find(tx, organization_id, who.id if is_own else principal)


def _sufficient(verb: Verb) -> list[Role]:
    return [role for role in Role if verb in GRANTS[role]]


def _kind(place: Place) -> Literal["organization", "group", "module"]:
    return "module" if place.kind == "module" else "group" if place.path else "organization"


def _steps(place: Place, decision: AccessDecision, held: dict[str, RoleListed]) -> list[PlaceStep]:
    at = {(each.place_kind, each.path): each for each in decision.applying}
    names = place.path.split("/") if place.path else []
    found: list[PlaceStep] = []
    for depth in range(len(names) + 1):
        path = "/".join(names[:depth])
        kind = _kind(place) if path == place.path else "group" if path else "organization"
        binding = at.get(("module" if kind == "module" else "group", path))
        role = held.get(binding.id) if binding else None
        found.append(PlaceStep(kind, path, role, is_deciding=binding is not None and binding == decision.deciding))
    return found


def _sentence(subject: User | ServiceAccount, verb: Verb, place: Place, decision: AccessDecision) -> str:
    name, action, where = subject.name, WORDS[verb], _where(place.path)
    if subject.is_disabled:
        return f"{name} may not {action} in {where}, because {name} is disabled."
    if decision.reason == "administrator":
        return f"{name} may {action} in {where}, because {name} is an administrator of the server."
    if decision.deciding is not None:
        return f"{name} may {action} in {where}, because {name} is {_held(decision.deciding)}."
    if decision.reason == "machine_only":
        return f"{name} may not {action} in {where}, because only runners and attempts may."
    if not _sufficient(verb):
        return f"{name} may not {action} in {where}, because no role includes this."
    least = _sufficient(verb)[0].value
    if decision.applying:
        return f"{name} may not {action} in {where}, because {name} is only {_held(decision.applying[0])}: {_article(least)} may."
    return f"{name} may not {action} in {where}, because {name} has no role there: {_article(least)} may."


def _held(binding: authorize.Binding) -> str:
    return f"{binding.role.value} of {_where(binding.path)}"


def _where(path: str) -> str:
    return f"`{path}`" if path else "the organization"


def _article(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"
