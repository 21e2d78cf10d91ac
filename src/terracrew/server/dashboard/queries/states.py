"""States in quarantine, with what one needs to know to decide about them."""

from terracrew.server.dashboard.views import QuarantineRow
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

_QUARANTINE = """
SELECT states.id, states.job_id, jobs.number AS job_number, states.attempt, states.origin, states.serial, states.lineage,
    states.size, states.created_at, states.problem, now.serial AS current_serial, now.lineage AS current_lineage,
    now.version AS current_version, now.created_at AS current_at,
    coalesce((SELECT path FROM runners WHERE runners.id = attempts.runner_id),
        (SELECT name FROM removed WHERE removed.id = attempts.runner_id)) AS runner_path
FROM states JOIN jobs ON jobs.id = states.job_id
LEFT JOIN attempts ON attempts.job_id = states.job_id AND attempts.number = states.attempt
LEFT JOIN states AS now ON now.module_id = states.module_id AND now.status = 'current'
WHERE states.module_id = :module_id AND states.status = 'quarantined' ORDER BY states.id LIMIT 100"""


async def quarantine(tx: Tx, who: Principal, module_id: str, place: authorize.Place) -> list[QuarantineRow]:
    """Return the quarantined states of a module, the oldest first, at most as many as one page shows."""
    rows = await tx.all(_QUARANTINE, module_id=module_id)
    if not rows:
        return []
    may_decide = (await authorize.visible(tx, who, Verb.STATE_WRITE)).covers(place)
    return [row_to(QuarantineRow, {**row, "may_decide": may_decide}) for row in rows]
