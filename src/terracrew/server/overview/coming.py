"""What has a date that has not come yet: schedules, plans whose time to be approved ends, and rights and credentials that end."""

from collections.abc import Sequence
from datetime import UTC, datetime

from terracrew.api.overview import ComingKind, ComingUp
from terracrew.server.db.seam import Row, Tx
from terracrew.server.identity.access import role_reads
from terracrew.server.identity.access import store as accounts
from terracrew.server.identity.federation import store as trust_policies
from terracrew.server.identity.people import service as people
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reads as run_reads
from terracrew.server.schedules import reads as schedule_reads
from terracrew.server.tree.groups import tree_path as paths
from terracrew.wording import overview_words

MAX_LISTED = 8
MAX_AHEAD_SECONDS = 30 * 86_400.0
MAX_READ_OF_PLACES = 200
"""How many of each kind are read where only some groups are shown, because those of others are left out afterwards."""


async def read(tx: Tx, who: Principal, places: Sequence[str]) -> list[ComingUp]:
    """Return what happens next in these groups and below them, and to the reader's own tokens, the nearest first."""
    organization_id, until = who.organization_id or "", tx.now + MAX_AHEAD_SECONDS
    count = MAX_LISTED if "" in places else MAX_READ_OF_PLACES
    seen = await authorize.visible_by_verb(tx, who, Verb.JOB_READ, Verb.ACCESS_READ)
    found = [
        *await _schedules(tx, organization_id, seen[Verb.JOB_READ], until, count),
        *await _approvals(tx, organization_id, seen[Verb.JOB_READ], until, count),
        *await _access(tx, organization_id, seen[Verb.ACCESS_READ], until, count),
    ]
    found = [each for each in found if paths.is_within_any(each.path or "", places)]
    found += [
        ComingUp(
            at=_moment(row["expires_at"]),
            kind="token",
            text=overview_words.token_ends(row["name"]),
            target_id=row["id"],
        )
        for row in await people.ending_tokens(tx, who, until, MAX_LISTED)
    ]
    return sorted(found, key=lambda each: each.at)[:MAX_LISTED]


async def _schedules(tx: Tx, organization_id: str, seen: Visible, until: float, count: int) -> list[ComingUp]:
    return [
        ComingUp(
            at=each.schedule.next_at,
            kind="schedule",
            path=each.path,
            place_kind="group" if each.schedule.module_id is None else "module",
            text=overview_words.schedule_starts(each.schedule.kind, each.schedule.name),
            target_id=each.id,
        )
        for each in await schedule_reads.next_starts(tx, organization_id, seen, until, count)
        if each.schedule.next_at is not None
    ]


async def _approvals(tx: Tx, organization_id: str, seen: Visible, until: float, count: int) -> list[ComingUp]:
    return [
        ComingUp(
            at=_moment(row["decide_by"]),
            kind="approval",
            path=row["path"],
            place_kind="module",
            text=overview_words.approval_ends(row["number"]),
            target_id=row["id"],
        )
        for row in await run_reads.approvals_that_end(tx, organization_id, seen, until, count)
    ]


async def _access(tx: Tx, organization_id: str, seen: Visible, until: float, count: int) -> list[ComingUp]:
    """Return roles, and secrets and trust policies of service accounts, that end at places whose access the reader may see."""
    if seen.is_nothing:
        return []
    found = [
        ComingUp(
            at=role.expires_at,
            kind="role",
            path=role.path,
            place_kind=role.place_kind,
            text=overview_words.role_ends(role.role.value, role.principal_name),
            target_id=role.id,
        )
        for role in await role_reads.ending(tx, seen, organization_id, until, count)
        if role.expires_at is not None
    ]
    secrets = await accounts.ending_secrets(tx, organization_id, until, MAX_READ_OF_PLACES)
    policies = await trust_policies.ending(tx, organization_id, until, MAX_READ_OF_PLACES)
    ending: list[tuple[Row, ComingKind, str]] = [
        *((row, "secret", overview_words.secret_ends(row["name"])) for row in secrets),
        *((row, "trust_policy", overview_words.trust_policy_ends(row["name"], row["issuer"])) for row in policies),
    ]
    for row, kind, text in ending:
        if seen.covers(authorize.group(organization_id, row["path"])):
            found.append(
                ComingUp(
                    at=_moment(row["expires_at"]),
                    kind=kind,
                    path=row["path"],
                    place_kind="group",
                    text=text,
                    target_id=row["service_account_id"],
                )
            )
    return found


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
