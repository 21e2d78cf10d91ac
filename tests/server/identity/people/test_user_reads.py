"""A page of the users of an organization is read from indexes, and has its guests in their order."""

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import user_reads
from tests.builders.job_rows import JobRows

pytestmark = pytest.mark.feature("X3.people")
HOME, GUEST = [f"usr_{n}" for n in (1, 4, 5)], [f"usr_{n}" for n in (0, 2, 3, 6)]


async def _write_users(rows: JobRows) -> None:
    """Write users of the organization and of another one, some of whom have roles in both."""
    other = await JobRows.make(rows.db)
    for each in HOME:
        await rows.insert("users", id=each, name=each)
    for each in [*GUEST, "usr_7"]:
        await other.insert("users", id=each, name=each)
    place = {"role": "viewer", "place_kind": "group", "principal_kind": "user", "created_by": "test"}
    group = await rows.group("network")
    for each in [*GUEST, HOME[0]]:
        for path, group_id in (("", rows.root), ("network", group)):
            own = {"id": f"rol_{each}_{path}", "principal_id": each, "group_id": group_id, "path": path}
            ended = {"expires_at": 1} if each == "usr_3" else {}
            await rows.insert("role_bindings", **own, **place, **ended)


async def test_pages_have_every_user_and_every_guest_once(rows: JobRows) -> None:
    await _write_users(rows)
    for search in (None, "usr"):
        for limit in (1, 2, 10):
            found: list[str] = []
            while True:
                after = found[-1] if found else ""

                async def page(
                    tx: Tx, after: str = after, limit: int = limit, search: str | None = search
                ) -> list[str]:
                    listed = await user_reads.listing(tx, rows.organization, search, after, limit)
                    return [each.id for each in listed]

                page_ids = await rows.db.read(page)
                found += page_ids
                if len(page_ids) < limit:
                    break
            assert found == ["usr_0", "usr_1", "usr_2", "usr_4", "usr_5", "usr_6"]


async def test_a_page_does_not_read_all_roles_of_the_organization(rows: JobRows) -> None:
    """The list of users collected 5,000 users and 20,000 roles for each page: 30 ms."""
    if rows.db.kind != "sqlite":
        pytest.skip("PostgreSQL chooses by its statistics")
    sql = "EXPLAIN QUERY PLAN " + user_reads.OF_ORGANIZATION
    plan = await rows.db.read(lambda tx: tx.all(sql, organization_id="org", now=tx.now, after="", limit=50))
    details = [str(row["detail"]) for row in plan]
    assert any("role_bindings_of_members" in each and "principal_id>?" in each for each in details), details
    assert not any("TEMP B-TREE FOR DISTINCT" in each or "SCAN users" in each for each in details), details
