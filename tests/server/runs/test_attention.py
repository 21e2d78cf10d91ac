"""What needs a person is found by indexes, however many jobs there are."""

from typing import Any

import pytest

from terracrew.server.db.sqlite.database import SqliteDatabase
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runs import reads
from tests.builders.job_rows import JobRows
from tests.server.hub.statement_counts import RecordingTx

pytestmark = pytest.mark.feature("U2.overview")


async def test_sqlite_reads_no_table_as_a_whole_to_find_what_needs_a_person(rows: JobRows) -> None:
    if not isinstance(rows.db, SqliteDatabase):
        pytest.skip("PostgreSQL shows its plans in another way")
    said: list[tuple[Any, dict[str, Any]]] = []
    everything = await rows.db.read(lambda tx: authorize.visible(tx, SYSTEM, Verb.JOB_READ))
    somebody = Visible(rows.organization, (("group", "a"),), "usr_1", authorize.roles_with(Verb.JOB_READ))

    async def read(tx: Any) -> None:
        recording: Any = RecordingTx(tx, said)
        for seen in (everything, somebody):
            await reads.oldest_queued(recording, rows.organization, seen, 5)
            await reads.awaiting_approval(recording, rows.organization, seen, 5)
            await reads.approvals_that_end(recording, rows.organization, seen, 1e12, 5)
        await reads.out_of_contact(recording, rows.organization, 0.0, 5)
        await reads.modules_in_doubt(recording, rows.organization, 5)
        await reads.modules_with_quarantine(recording, rows.organization, 5)

    await rows.db.read(read)
    indexes = ("jobs_open ", "jobs_open ", "plans_open", "jobs_queue_of_module", "jobs_open_of_module", "plans_open")
    indexes += ("jobs_running", "attempts_in_doubt", "states_quarantine")
    assert len(said) == len(indexes)
    for (sql, params), index in zip(said, indexes, strict=True):
        plan = await rows.db.read(lambda tx, sql=sql, params=params: tx.all("EXPLAIN QUERY PLAN " + sql, **params))
        details = [row["detail"] for row in plan]
        assert any(index in each for each in details), "\n".join(details)
        assert not [each for each in details if each.startswith(("SCAN jobs", "SCAN modules")) and "INDEX" not in each]
