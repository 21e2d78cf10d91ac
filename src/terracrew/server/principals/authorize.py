"""Authorization: decides which principal may use which verb on which place. Every request and every message passes `require`."""

import math
from collections.abc import Iterable
from typing import Literal, Protocol, cast

import msgspec

from terracrew.api.access import Reason, Role, Verb
from terracrew.errors import Forbidden, NotFound
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import reads
from terracrew.server.principals.model import AttemptScope, Principal

WORDS: dict[Verb, str] = {
    Verb.TREE_READ: "see groups and modules",
    Verb.TREE_WRITE: "change groups and modules",
    Verb.JOB_READ: "see jobs and logs",
    Verb.JOB_RUN: "run jobs",
    Verb.JOB_CANCEL: "cancel jobs",
    Verb.JOB_APPROVE: "approve and decline plans",
    Verb.STATE_READ: "read states and sensitive outputs",
    Verb.STATE_WRITE: "import, restore, adopt and discard states",
    Verb.SECRET_USE: "run jobs that use secrets",
    Verb.SECRET_SET: "set and remove secrets",
    Verb.RUNNER_READ: "see runners",
    Verb.RUNNER_WRITE: "register and change runners",
    Verb.ACCESS_READ: "see who has access",
    Verb.ACCESS_WRITE: "grant and revoke access",
    Verb.AUDIT_READ: "read the audit log",
    Verb.SERVER_ADMIN: "administer the server",
    Verb.HUB_CONNECT: "connect as a runner",
    Verb.ATTEMPT_REPORT: "report the results of an attempt",
    Verb.ATTEMPT_READ: "read the specification of an attempt",
}


V = Verb
_VIEWER = frozenset({V.TREE_READ, V.JOB_READ, V.RUNNER_READ})
# A state may contain passwords, so the right to see the tree does not include it.
# Whoever runs a job lets its engine use the secrets that apply to the module. To set them is another right: it does not include
# reading them, which nobody can.
_OPERATOR = _VIEWER | {V.JOB_RUN, V.JOB_CANCEL, V.STATE_READ, V.SECRET_USE}
_APPROVER = _OPERATOR | {V.JOB_APPROVE}
_OWNER = _APPROVER | {
    V.TREE_WRITE,
    V.STATE_WRITE,
    V.SECRET_SET,
    V.RUNNER_WRITE,
    V.ACCESS_READ,
    V.ACCESS_WRITE,
    V.AUDIT_READ,
}
GRANTS: dict[Role, frozenset[Verb]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.APPROVER: _APPROVER,
    Role.OWNER: _OWNER,
}
MACHINE_ONLY = frozenset({V.HUB_CONNECT, V.ATTEMPT_REPORT, V.ATTEMPT_READ})
"""The verbs that no person may use, not even an administrator."""


class RunnerRecord(Protocol):
    """The fields of a runner that authorization needs."""

    @property
    def id(self) -> str: ...
    @property
    def organization_id(self) -> str | None: ...
    @property
    def service_account_id(self) -> str | None: ...


class Place(msgspec.Struct, frozen=True):
    """The group, module, job or attempt that an action is about. A job's credential is valid only for its own job and attempt."""

    organization_id: str | None
    path: str = ""
    kind: Literal["group", "module", "organization", "server"] = "group"
    job_id: str | None = None
    attempt: int | None = None


SERVER = Place(None, "", "server")


def organization(organization_id: str | None) -> Place:
    """Return the root of an organization's tree."""
    return SERVER if organization_id is None else Place(organization_id, "", "organization")


def group(organization_id: str, path: str) -> Place:
    return Place(organization_id, path, "group" if path else "organization")


def module(organization_id: str, path: str, job_id: str | None = None, attempt: int | None = None) -> Place:
    """Return a module, or a job of it, or one attempt of that job."""
    return Place(organization_id, path, "module", job_id, attempt)


def allows(roles: frozenset[Role], verb: Verb) -> bool:
    """Return whether one of these roles includes the verb."""
    return any(verb in GRANTS[role] for role in roles)


def roles_with(verb: Verb) -> str:
    """Return the roles that include a verb, each between two spaces, as statements compare them."""
    return f" {' '.join(role.value for role in Role if verb in GRANTS[role])} "


def covers(binding_kind: str, binding_path: str, place: Place) -> bool:
    """Return whether a role that is bound to this kind and path applies to a place of the same organization."""
    if binding_kind == "module":
        return place.kind == "module" and place.path == binding_path
    if binding_path == "" or place.path.startswith(f"{binding_path}/"):
        return place.kind != "server"
    return place.kind == "group" and place.path == binding_path


def may_serve_runner(principal: Principal, runner: RunnerRecord) -> bool:
    """Return whether the principal may serve the runner: a worker token its own one, a service account those that name it."""
    if principal.organization_id != runner.organization_id:
        return False
    if principal.kind == "runner":
        return principal.id == runner.id
    return principal.kind == "service_account" and runner.service_account_id == principal.id


def require_runner(principal: Principal, runner: RunnerRecord) -> None:
    """Raise an error unless the principal may hold the connection of this runner (the verb `hub.connect`)."""
    if not may_serve_runner(principal, runner):
        raise no_runner()


def no_runner() -> NotFound:
    """Return the error for a runner that a credential may not serve, whether or not the runner exists."""
    return NotFound("there is no such runner for this credential: check its organization, name and service account")


def require_person(principal: Principal) -> None:
    """Raise an error unless the principal is a person. Only people have API tokens and a password."""
    if principal.kind != "user":
        raise Forbidden("only a person has API tokens and a password; a service account has client secrets")


def require_reader(principal: Principal) -> None:
    """Raise an error unless the principal is a person or a service account. A machine's credential is for one thing only."""
    if principal.kind not in ("user", "service_account"):
        raise Forbidden("only a person or a service account may follow events")


class Binding(msgspec.Struct, frozen=True):
    """A role of a principal at a place, as far as authorization needs to know it."""

    id: str
    role: Role
    place_kind: str
    path: str
    expires_at: float | None = None


ALLOWED = frozenset[Reason]({"system", "administrator", "attempt", "role"})


class AccessDecision(msgspec.Struct, frozen=True):
    """Whether a principal may use a verb on a place, and why. `require` and the explanations for people both use it."""

    reason: Reason
    applying: tuple[Binding, ...] = ()
    """The roles of the principal that apply to the place, the nearest one first."""
    deciding: Binding | None = None
    """The nearest role that includes the verb."""

    @property
    def is_allowed(self) -> bool:
        return self.reason in ALLOWED

    @property
    def is_hidden(self) -> bool:
        """Whether the principal may not even know that the place exists."""
        return self.reason == "unseen"


async def decide(source: Tx | Database, principal: Principal, verb: Verb, place: Place) -> AccessDecision:
    """Decide whether the principal may use the verb on the place."""
    if principal.attempt is not None:
        return AccessDecision(_decide_attempt(principal.kind, principal.attempt, verb, place))
    if principal.kind == "system" or principal.is_system_admin:
        if verb in MACHINE_ONLY:
            return AccessDecision("machine_only")
        return AccessDecision("system" if principal.kind == "system" else "administrator")
    if place.kind == "server":
        return AccessDecision("server")
    if place.organization_id != principal.organization_id or principal.kind in ("runner", "publisher"):
        return AccessDecision("unseen")
    return decide_by_roles(await _bindings(source, principal), verb, place)


def decide_by_roles(bindings: Iterable[Binding], verb: Verb, place: Place) -> AccessDecision:
    """Decide by the roles of a person or a service account in the organization of the place."""
    found = (each for each in bindings if covers(each.place_kind, each.path, place))
    applying = tuple(sorted(found, key=lambda each: (each.place_kind == "module", len(each.path)), reverse=True))
    for each in applying:
        if allows(frozenset({each.role}), verb):
            return AccessDecision("role", applying, each)
    if applying:
        return AccessDecision("lesser_role", applying)
    return AccessDecision("no_role" if place.kind == "organization" else "unseen")


async def require(
    source: Tx | Database, principal: Principal, verb: Verb, place: Place, unseen: NotFound | None = None
) -> None:
    """Raise an error unless the principal may. If it may not even know that the place exists, the error is NotFound.

    A caller that looked the place up by an id passes its own error for a missing place as `unseen`, because the default error
    would reveal the path.
    """
    decision = await decide(source, principal, verb, place)
    if decision.is_hidden:
        raise unseen or _not_found(place)
    if not decision.is_allowed and principal.attempt is not None:
        words = "the credential of a job is only for its own job, and can read its module, states and outputs"
        raise Forbidden(f"{words}: it may not {WORDS[verb]}", verb=verb.value, path=place.path)
    if not decision.is_allowed:
        raise forbidden(verb, place)


def _decide_attempt(kind: str, own: AttemptScope, verb: Verb, place: Place) -> Reason:
    is_own_module = (place.organization_id, place.kind, place.path) == (own.organization_id, "module", own.module_path)
    is_own_job = is_own_module and place.job_id == own.job_id
    is_own_attempt = is_own_job and place.attempt == own.attempt
    if kind == "executor":
        if verb in (V.ATTEMPT_REPORT, V.ATTEMPT_READ) and is_own_attempt:
            return "attempt"
    elif kind == "engine" and (
        (verb in (V.ATTEMPT_READ, V.JOB_READ) and is_own_job) or (verb is V.STATE_READ and is_own_module)
    ):
        return "attempt"
    return "lesser_role" if is_own_module else "unseen"


class Visible(msgspec.Struct, frozen=True):
    """The places of an organization (None: of all) where a principal may do something. Lists use it.

    The statements of lists filter by `visibility`, which expresses the same in SQL.
    """

    organization_id: str | None
    bindings: tuple[tuple[str, str], ...] = ()
    reader_id: str = ""
    """The id of the principal that has these role bindings."""
    roles: str = ""
    """The roles that include the verb, each between two spaces."""
    as_of: float = math.inf
    """When the roles were read. Roles that had expired by then do not count."""

    def covers(self, place: Place) -> bool:
        if self.organization_id is None:
            return True
        own = place.organization_id == self.organization_id
        return own and any(covers(kind, path, place) for kind, path in self.bindings)

    def is_everything(self, organization_id: str) -> bool:
        """Return whether nothing in the organization is hidden, so that a list needs no filter."""
        if self.organization_id is None:
            return True
        return self.organization_id == organization_id and ("group", "") in self.bindings

    @property
    def is_nothing(self) -> bool:
        return self.organization_id is not None and not self.bindings

    def leads_to(self, path: str) -> bool:
        """Return whether a group is on the way to something visible, so that the reader can walk the tree to it."""
        return any(bound.startswith(f"{path}/") or path == "" for _, bound in self.bindings)


async def visible(source: Tx | Database, principal: Principal, verb: Verb) -> Visible:
    """Return all places where the principal may use the verb. It agrees with what `require` decides for each single place."""
    return (await visible_by_verb(source, principal, verb))[verb]


async def may(source: Tx | Database, principal: Principal, verb: Verb, place: Place) -> bool:
    """Return whether the principal may use the verb at a place, for a page that only shows what is possible."""
    return (await visible(source, principal, verb)).covers(place)


async def visible_by_verb(source: Tx | Database, principal: Principal, *verbs: Verb) -> dict[Verb, Visible]:
    """Return the same for several verbs, of which the roles are read once."""
    if principal.attempt is not None or principal.kind in ("runner", "publisher"):
        return dict.fromkeys(verbs, Visible(""))
    if principal.kind == "system" or principal.is_system_admin:
        return {verb: Visible("" if verb in MACHINE_ONLY else None) for verb in verbs}
    as_of, found = await _read(source, principal)
    return {
        verb: Visible(
            principal.organization_id or "",
            tuple((each.place_kind, each.path) for each in found if allows(frozenset({each.role}), verb)),
            principal.id,
            roles_with(verb),
            as_of,
        )
        for verb in verbs
    }


async def roles_at(source: Tx | Database, principal: Principal, place: Place) -> frozenset[Role]:
    """Return the roles that apply here, including those inherited from above."""
    found = await _bindings(source, principal)
    return frozenset(each.role for each in found if covers(each.place_kind, each.path, place))


async def _bindings(source: Tx | Database, principal: Principal) -> list[Binding]:
    return (await _read(source, principal))[1]


async def _read(source: Tx | Database, principal: Principal) -> tuple[float, list[Binding]]:
    """Return the roles of a principal in its organization, and the time of the transaction that read them."""

    async def read(tx: Tx) -> tuple[float, list[Binding]]:
        return tx.now, rows_to(Binding, await reads.role_bindings(tx, principal.id, principal.organization_id))

    # Both types are protocols, so `isinstance` cannot tell them apart; only a database has `kind`.
    return await (cast("Database", source).read(read) if hasattr(source, "kind") else read(cast("Tx", source)))


def forbidden(verb: Verb, place: Place) -> Forbidden:
    """Return the error for somebody who sees the place and has no role that includes the verb."""
    least = next((role for role in Role if verb in GRANTS[role]), None)
    if verb in MACHINE_ONLY:
        remedy = ": only machines may"
    elif least is None or place.kind == "server":
        remedy = ": only an administrator of the server may"
    else:
        where = f" in the {place.kind}" + (f" `{place.path}`" if place.path else "")
        remedy = f"{where}: ask an owner for the role {least}"
    return Forbidden(f"you may not {WORDS[verb]}{remedy}", verb=verb.value, path=place.path)


def _not_found(place: Place) -> NotFound:
    return NotFound(f"there is no {place.kind} `{place.path}` here, or you may not see it".replace(" ``", ""))
