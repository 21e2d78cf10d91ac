"""Writes an entry of the audit log for each change, in the same transaction, so that neither exists without the other."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from terracrew import ids
from terracrew.server.audit import store
from terracrew.server.audit.model import Entry
from terracrew.server.db.seam import Tx
from terracrew.server.metrics import process as counts
from terracrew.server.paging import Page, page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.credentials import ANYWHERE


class Change(msgspec.Struct, frozen=True):
    """An entry of the audit log before it is written: who did what to what."""

    who: Principal
    action: str
    target_kind: str
    target_id: str
    details: Mapping[str, object] = {}
    organization_id: str | None = None
    """The organization of the entry; None means the actor's own."""


async def record(
    tx: Tx,
    who: Principal,
    action: str,
    target_kind: str,
    target_id: str,
    details: Mapping[str, object] | None = None,
    *,
    organization_id: str | None = None,
) -> None:
    """Write the entry of a change. Without `organization_id`, it belongs to the actor's organization."""
    await record_all(tx, [Change(who, action, target_kind, target_id, details or {}, organization_id)])


async def record_all(tx: Tx, changes: Sequence[Change]) -> None:
    """Write the entries of many changes with one statement."""
    now = datetime.fromtimestamp(tx.now, UTC)
    rows: list[tuple[str | None, Entry]] = []
    for change in changes:
        # Callers do not put secrets here. If one does by mistake, the secret is replaced.
        text = ANYWHERE.sub("(secret)", msgspec.json.encode(change.details).decode())
        who = change.who
        entry = Entry(
            ids.new("aud"),
            now,
            who.kind,
            who.id,
            who.name,
            change.action,
            change.target_kind,
            change.target_id,
            msgspec.json.decode(text, type=dict[str, object]),
            who.address,
            who.credential_id,
        )
        rows.append((change.organization_id or who.organization_id, entry))
    await store.insert(tx, rows)
    tx.on_commit(partial(_count, [change.action for change in changes]))


def _count(actions: Sequence[str]) -> None:
    for action in actions:
        counts.changes.add(1, action)


async def listing(tx: Tx, who: Principal, target: str | None, after: str | None, limit: int) -> Page[Entry]:
    await authorize.require(tx, who, Verb.AUDIT_READ, authorize.organization(who.organization_id))
    every = None if who.is_system_admin else who.organization_id
    return page(await store.entries(tx, every, target, start(after), limit + 1), limit)
