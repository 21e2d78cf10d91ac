"""Raises alerts, at most one for each runner, kind and name, and audits each at most once an hour while it repeats."""

import msgspec

from terracrew.api.runners import AlertKind
from terracrew.logging import get_logger
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.runners.alerts import store
from terracrew.server.runners.alerts.store import Occurrence

AUDIT_SECONDS = 3600.0
MAX_OPEN_PER_RUNNER = 50
"""A process chooses its name, so their number is bounded: further names are counted by one alert of each kind without a name."""
ACTIONS = {
    AlertKind.MOVED: "runner.move",
    AlertKind.TAKEN_OVER: "runner.takeover",
    AlertKind.REFUSED: "runner.takeover_refused",
    AlertKind.ENDED_TOKEN: "runner.token_reuse",
}
log = get_logger("terracrew.alerts")


class AlertedRunner(msgspec.Struct, frozen=True):
    """The runner that an alert is about."""

    id: str
    path: str
    organization_id: str | None


async def occurred(tx: Tx, who: Principal, runner: AlertedRunner, what: Occurrence, details: dict[str, object]) -> None:
    """Raise an alert or count it. The caller's transaction is also that of the entry in the audit log."""
    if not await store.is_raised(tx, runner.id, what.kind, what.instance) and (
        await store.open_count(tx, runner.id) >= MAX_OPEN_PER_RUNNER
    ):
        what = msgspec.structs.replace(what, instance="")
    row = await store.raise_or_count(tx, runner.id, what, tx.now - AUDIT_SECONDS)
    tx.wake("runners", runner.id)
    if row["audited_at"] == tx.now:
        facts = {"runner": runner.path, **details, "from": what.former_address, "count": row["count"]}
        action = ACTIONS[what.kind]
        await audit.record(tx, who, action, "runner", runner.id, facts, organization_id=runner.organization_id)
        log.warning(
            action, runner=runner.path, instance=what.instance, address=what.address, former=what.former_address
        )
