"""Shows alerts about a runner to those who may change it, and lets them acknowledge them."""

from datetime import UTC

from terracrew.api.pages import Page
from terracrew.api.runners import Acknowledgement, RunnerAlert
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runner_alerts import store
from terracrew.server.runner_alerts.raising import MAX_OPEN_PER_RUNNER
from terracrew.server.runners import service

MAX_SHOWN = 2 * MAX_OPEN_PER_RUNNER


async def of(tx: Tx, who: Principal, reference: str) -> Page[RunnerAlert]:
    """Return what nobody has acknowledged. Addresses are shown only to those who may change the runner."""
    runner = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    return Page(await store.shown(tx, runner.id, MAX_SHOWN))


async def acknowledge(tx: Tx, who: Principal, reference: str, what: Acknowledgement) -> Page[RunnerAlert]:
    """Acknowledge alerts, and return those that are left."""
    runner = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    until = tx.now if what.until is None else min(tx.now, what.until.astimezone(UTC).timestamp())
    rows = await store.acknowledge(tx, runner.id, until, who.name)
    found = sorted({(str(row["kind"]), str(row["instance"])) for row in rows})
    said = [f"{kind} {instance}".strip() for kind, instance in found]
    await service.note(tx, who, "runner.acknowledge", runner, alerts=said)
    return Page(await store.shown(tx, runner.id, MAX_SHOWN))
