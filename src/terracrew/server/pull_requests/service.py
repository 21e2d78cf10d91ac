"""What people do with pull requests here: look at them, and ask for what a comment on the forge could ask for, too.

Whoever may see a module sees the pull requests that touch it, with the modules that they may see.
"""

import re
from collections.abc import Sequence

from terracrew import ids
from terracrew.api.pages import Page
from terracrew.api.pull_requests import (
    AllowCommit,
    ApplyPullRequest,
    ForgeUserView,
    LinkForgeUser,
    PendingModule,
    PullRequestCommand,
    PullRequestFilter,
    PullRequestListed,
    PullRequestModule,
    PullRequestOutcome,
    PullRequestView,
)
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.forges import reads as forge_reads
from terracrew.server.forges import service as connections
from terracrew.server.forges.model import ForgeConnection
from terracrew.server.identity.people import acting, user_reads
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.pull_requests import commanding, reads, store
from terracrew.server.pull_requests.commands import Command, CommandName
from terracrew.server.pull_requests.looking import Looking
from terracrew.server.pull_requests.model import ForgeUser, PullRequestSubject
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import policy

_NAMED = re.compile(r"(?P<repository>[^#]{1,500})#(?P<number>[0-9]{1,18})")


async def listing(
    tx: Tx, who: Principal, state: PullRequestFilter, after: str | None, limit: int
) -> Page[PullRequestListed]:
    """Return the pull requests that the caller may see, the newest first."""
    organization_id = who.organization_id or ""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    rows = await reads.listed(tx, organization_id, seen, state, start(after), limit + 1)
    counts = await reads.counts(tx, organization_id, seen, [row["id"] for row in rows])
    found = [row_to(PullRequestListed, {**row, "forge": _forge(row), "modules": counts[row["id"]]}) for row in rows]
    return page(found, limit)


async def show(tx: Tx, who: Principal, reference: str) -> PullRequestView:
    """Return a pull request by its id, or by `owner/repository#number`."""
    row, seen = await _find(tx, who, reference)
    rows = await reads.modules(tx, row["organization_id"], seen, row["id"])
    rules = await policy.pull_request_rules(tx, [each["module_id"] for each in rows])
    touched = [row_to(PullRequestModule, {**each, "apply": rules[each["module_id"]].apply}) for each in rows]
    counts = await reads.counts(tx, row["organization_id"], seen, [row["id"]])
    is_allowed = (row["allowed_commit"], row["allowed_branch"]) == (row["head_commit"], row["base_branch"])
    is_refused = bool(row["is_fork"]) and not is_allowed and row["state"] == "open"
    place = authorize.group(row["organization_id"], row["connection_group"])
    may_allow = is_refused and await authorize.may(tx, who, Verb.TREE_WRITE, place)
    tracked = await store.get(tx, row["id"])
    pending = [] if tracked is None else [each for each in tracked.pending if _covers(seen, row, each)]
    more = {
        "pending": pending,
        "forge": _forge(row),
        "modules": counts[row["id"]],
        "may_allow": may_allow,
        "touched": touched,
    }
    if not seen.is_everything(row["organization_id"]) and len(touched) < await reads.count_modules(tx, row["id"]):
        more |= {"replies": [], "show_problem": ""}  # they name modules that the caller may not see
    return row_to(PullRequestView, {**row, **more})


async def command(
    tools: PullRequestTools, who: Principal, reference: str, name: CommandName, asked: PullRequestCommand
) -> PullRequestOutcome:
    """Plan again, apply or cancel modules of a pull request."""
    verb = Verb.JOB_CANCEL if name == "cancel" else Verb.JOB_RUN
    subject = await tools.db.read(lambda tx: _subject(tx, who, reference, verb))
    if isinstance(asked, ApplyPullRequest) and subject.facts.head_commit != asked.head_commit:
        raise Conflict(
            f"the newest commit of the pull request is {subject.facts.head_commit[:12]} by now: look at its plans",
            head_commit=subject.facts.head_commit,
        )
    if isinstance(asked, ApplyPullRequest) and subject.row.head_commit != subject.facts.head_commit and subject.is_open:
        raise Conflict("its newest commit is being planned: look at the new plans")
    paths = tuple(each.strip("/") for each in asked.modules)
    plans = asked.plans if isinstance(asked, ApplyPullRequest) else ()
    return await commanding.carry_out(tools, subject, Looking(), who, Command(name, paths), plans=plans)


async def allow(tx: Tx, who: Principal, reference: str, asked: AllowCommit) -> PullRequestOutcome:
    """Let the newest commit of a fork be planned."""
    subject = await _subject(tx, who, reference)
    await commanding.allow(tx, who, subject, asked.commit)
    return PullRequestOutcome(f"{subject.facts.head_commit[:12]} may be planned")


async def forge_users(tx: Tx, who: Principal, forge: str) -> Page[ForgeUserView]:
    """Return which users of a forge are users here."""
    connection = await connections.find(tx, who, forge)
    return Page(await _views(tx, await store.users_of(tx, connection.id)), None)


async def link_user(tx: Tx, who: Principal, forge: str, asked: LinkForgeUser) -> ForgeUserView:
    """Let what a user of a forge writes there be done as a user here.

    It lets the one act as the other, so it takes the same right as to take over the account.
    """
    connection = await _administered(tx, who, forge)
    user = await acting.member(tx, asked.user, connection.organization_id)
    if user is None:
        raise Invalid.in_field("user", f"there is no user `{asked.user[:200]}` in the organization")
    if user.id != who.id and not await acting.may_act_for(tx, who, user):
        raise Forbidden(f"you may not let somebody act as {user.name}: that takes the right to reset their password")
    forge_user_id = asked.forge_user_id or await forge_reads.user_named(tx, connection.id, asked.forge_user)
    if not forge_user_id:
        words = f"`{asked.forge_user}` has opened no pull request and written no command there yet: give their id on the forge"
        raise Invalid.in_field("forge_user_id", words)
    made = ForgeUser(
        connection_id=connection.id,
        forge_user_id=forge_user_id,
        forge_user=asked.forge_user,
        user_id=user.id,
        linked_by=who.id,
        linked_at=tx.moment,
    )
    await store.link(tx, made)
    await _record(tx, who, connection, "forge.link_user", {"forge_user": asked.forge_user, "user": user.name})
    return (await _views(tx, [made]))[0]


async def unlink_user(tx: Tx, who: Principal, forge: str, forge_user_id: str) -> None:
    """Let a user of a forge do nothing here any more."""
    connection = await _administered(tx, who, forge)
    if not await store.unlink(tx, connection.id, forge_user_id):
        raise NotFound(f"no user of the forge with the id `{forge_user_id[:200]}` is linked")
    await _record(tx, who, connection, "forge.unlink_user", {"forge_user_id": forge_user_id})


async def _administered(tx: Tx, who: Principal, forge: str) -> ForgeConnection:
    connection = await connections.find(tx, who, forge)
    await authorize.require(tx, who, Verb.ACCESS_WRITE, authorize.organization(connection.organization_id))
    return connection


async def _record(tx: Tx, who: Principal, connection: ForgeConnection, action: str, details: dict[str, str]) -> None:
    named = {"forge": connection.path, **details}
    await audit.record(tx, who, action, "forge", connection.id, named, organization_id=connection.organization_id)
    tx.wake("forges", "")  # pages of the connection show it


async def _views(tx: Tx, users: Sequence[ForgeUser]) -> list[ForgeUserView]:
    found: list[ForgeUserView] = []
    for each in users:
        known = await user_reads.of_id(tx, each.user_id)
        found.append(
            ForgeUserView(
                forge_user_id=each.forge_user_id,
                forge_user=each.forge_user,
                user_id=each.user_id,
                user=each.user_id if known is None else known.name,
                linked_by=each.linked_by,
                linked_at=each.linked_at,
            )
        )
    return found


async def _subject(tx: Tx, who: Principal, reference: str, verb: Verb | None = None) -> PullRequestSubject:
    """Find a pull request for somebody who may do this with a module of it, or with all of its connection."""
    row, seen = await _find(tx, who, reference)
    organization_id, group = row["organization_id"], row["connection_group"]
    if verb is not None and not await authorize.may(tx, who, verb, authorize.group(organization_id, group)):
        may = await authorize.visible(tx, who, verb)
        modules = await reads.modules(tx, organization_id, seen, row["id"])
        if not any(may.covers(authorize.module(organization_id, each["path"])) for each in modules):
            raise Forbidden("you may neither run nor cancel jobs of the modules of this pull request")
    tracked = await store.get(tx, row["id"])
    found = None if tracked is None else await reads.subject(tx, tracked)
    if found is None:
        raise _missing(reference)
    return found


def _covers(seen: authorize.Visible, row: Row, pending: PendingModule) -> bool:
    """Return whether the reader may see the place of a module that does not exist yet, or of its rule if it can have none."""
    path = pending.path or paths.split(pending.rule)[0]
    return seen.covers(authorize.group(row["organization_id"], paths.split(path)[0] if pending.folder else path))


async def _find(tx: Tx, who: Principal, reference: str) -> tuple[Row, authorize.Visible]:
    organization_id = who.organization_id or ""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    if match := _NAMED.fullmatch(reference):
        found = await reads.named(tx, organization_id, match["repository"], int(match["number"]))
    else:
        found = [reference] if ids.is_id("prq", reference) else []
    for each in found:
        row = await reads.one(tx, organization_id, seen, each)
        if row is not None:
            return {**row, "organization_id": organization_id}, seen
    raise _missing(reference)


def _missing(reference: str) -> NotFound:
    return NotFound(f"there is no pull request `{reference[:300]}` here, or you may not see it")


def _forge(row: Row) -> str:
    return f"{row['connection_group']}/{row['connection']}" if row["connection_group"] else row["connection"]
