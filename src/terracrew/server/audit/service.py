"""Writes an entry of the audit log for each change, in the same transaction, so that neither exists without the other."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from terracrew import ids
from terracrew.api.audit import Entry
from terracrew.server.audit import store
from terracrew.server.db.seam import Tx
from terracrew.server.metrics import process as counts
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.credentials import ANYWHERE

ACCESS_KINDS = frozenset({"role", "service_account", "session", "token", "user"})
"""The kinds of targets that the pages about access show."""


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
    now = tx.moment
    rows: list[Entry] = []
    places = await _paths(tx, changes)
    for change, path in zip(changes, places, strict=True):
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
            path,
            change.organization_id or who.organization_id,
        )
        rows.append(entry)
        if change.target_kind in ACCESS_KINDS:
            tx.wake("access_log", entry.organization_id or who.id)
            tx.wake("access_log", who.id)
    await store.insert(tx, rows)
    tx.on_commit(partial(_count, [change.action for change in changes]))


def _count(actions: Sequence[str]) -> None:
    for action in actions:
        counts.changes.labels(action).inc()


async def _paths(tx: Tx, changes: Sequence[Change]) -> list[str | None]:
    """Return the place of the tree that each change is about. It is in the details, or it is found by the job or module."""
    found = [_path_in(change.details) for change in changes]
    ids_of_others = {index: _id_with_place(change) for index, change in enumerate(changes) if found[index] is None}
    wanted = [each for each in ids_of_others.values() if each]
    known = await store.paths_of(tx, wanted) if wanted else {}
    return [path if path is not None else known.get(ids_of_others[index]) for index, path in enumerate(found)]


def _path_in(details: Mapping[str, object]) -> str | None:
    for name in ("path", "module", "group"):
        value = details.get(name)
        if isinstance(value, str) and not value.startswith("mod_"):
            return value
    return None


def _id_with_place(change: Change) -> str:
    """Return the id of the job or module that a change is about, or an empty text."""
    module = change.details.get("module")
    if isinstance(module, str):
        return module
    return change.target_id.partition(".")[0] if change.target_kind in ("job", "attempt", "module") else ""
