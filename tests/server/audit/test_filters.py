"""The audit log is filtered by who, what, where and when, each quickly, and exported in any size."""

import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import httpx
import pytest

from terracrew.api.access import Role
from terracrew.server.api.access import audit as export_face
from terracrew.server.audit import reads
from terracrew.server.audit import service as audit
from terracrew.server.audit.reads import EntryFilter
from terracrew.server.db import Database, Tx
from terracrew.server.db.seam import Param
from terracrew.server.principals.model import Principal
from tests.server.application import Application
from tests.server.hub.statement_counts import RecordingTx
from tests.server.identity.identity_server import IdentityServer


async def client_of(server: IdentityServer, who: Principal) -> httpx.AsyncClient:
    return server.client(await server.token(who))


async def written(server: IdentityServer, *changes: audit.Change) -> None:
    await server.db.write(lambda tx: audit.record_all(tx, changes))


async def actions(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """The actions of all pages, oldest first, without those that the test's own tokens leave."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        answer = await client.get("/api/v1/audit", params={**query, **after})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += [entry["action"] for entry in page["items"]]
        if page["next"] is None:
            return [each for each in reversed(found) if each != "token.create"]
        after = {"after": page["next"]}


@pytest.mark.feature("X3.filters")
@pytest.mark.parametrize("scanned", [5_000, 2])
async def test_entries_are_found_by_actor_action_target_place_time_and_text(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch, scanned: int
) -> None:
    monkeypatch.setattr(reads, "MAX_SCANNED_ENTRIES", scanned)
    vera, bob = await server.user("vera", Role.OWNER), await server.user("bob")
    payments = await server.group("pay")
    module = await server.rows.module("pay/prod/ledger", payments)
    await written(
        server,
        audit.Change(vera, "group.create", "group", payments, {"path": "pay"}),
        audit.Change(bob, "module.create", "module", module, {"path": "pay/prod/ledger"}),
        audit.Change(bob, "module.change", "module", module, {"description": "100%_done!"}),
        audit.Change(vera, "runner.create", "runner", "rnr_1", {"path": "pay/prod/crew"}),
        audit.Change(vera, "group.update", "group", "grp_2", {"path": "payroll", "note": "Say Hello"}),
        audit.Change(bob, "job.run", "job", "job_1", {"module": "pay/production/x"}),
    )
    client = await client_of(server, vera)
    assert await actions(client, actor="bob") == ["module.create", "module.change", "job.run"]
    assert await actions(client, actor=vera.id, action="group") == ["group.create", "group.update"]
    assert await actions(client, action="module.change") == ["module.change"]
    assert await actions(client, target=module) == ["module.create", "module.change"]
    assert await actions(client, path="pay") == [
        "group.create",
        "module.create",
        "module.change",
        "runner.create",
        "job.run",
    ]
    assert await actions(client, path="pay/prod") == ["module.create", "module.change", "runner.create"]
    assert await actions(client, path="pay/prod/ledger") == ["module.create", "module.change"], (
        "found by the module's id"
    )
    assert await actions(client, path="pay/prod/ledger", action="module.change", actor="bob") == ["module.change"]
    assert await actions(client, text="hello") == ["group.update"]
    assert await actions(client, text="%_d") == ["module.change"]
    assert await actions(client, text="nothing of this") == []
    now = datetime.now(UTC)
    soon, late = (now + timedelta(minutes=5)).isoformat(), (now - timedelta(minutes=5)).isoformat()
    assert len(await actions(client, since=late, until=soon)) == 6
    assert await actions(client, since=soon) == []
    assert await actions(client, until=late) == []
    assert await actions(client, until="2020-01-01T00:00:00") == [], "without a time zone it is UTC"


@pytest.mark.feature("X3.filters")
async def test_owners_of_a_group_read_what_is_about_it_and_nothing_else(server: IdentityServer) -> None:
    a = await server.group("a")
    await server.group("b")
    await server.rows.module("a/m", a)
    owner, viewer = await server.user("olga", Role.OWNER, "a"), await server.user("vera", Role.VIEWER, "a")
    boss = await server.user("boss", Role.OWNER)
    changes = [audit.Change(boss, f"{path[0]}.change", "group", path, {"path": path}) for path in ("a", "b", "a/m")]
    await written(server, *changes)
    client = await client_of(server, owner)
    assert await actions(client, path="a") == ["a.change", "a.change"]
    assert await actions(client, path="a/m") == ["a.change"]
    for query, status in (({}, 403), ({"path": ""}, 403), ({"path": "b"}, 404), ({"path": "missing"}, 404)):
        for place in ("/api/v1/audit", "/api/v1/audit/export"):
            assert (await client.get(place, params=query)).status_code == status, query
    assert (await (await client_of(server, viewer)).get("/api/v1/audit", params={"path": "a"})).status_code == 403
    elsewhere = await server.organization("elsewhere")
    foreign = await server.user("foreign", Role.OWNER, organization_id=elsewhere)
    await written(server, audit.Change(foreign, "a.foreign", "group", "x", {"path": "a"}))
    assert await actions(await client_of(server, foreign), path="a") == ["a.foreign"]
    assert "a.foreign" not in await actions(client, path="a")
    root = await server.user("root", is_system_admin=True)
    assert "a.foreign" not in await actions(await client_of(server, root), path="a"), "a path is one of an organization"


@pytest.mark.parametrize(
    "query",
    [
        {"since": "yesterday"},
        {"text": "x" * 201},
        {"actor": "a\x00b"},
        {"format": "xml"},
        {"unknown": "1"},
        {"after": "ü"},
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(application: Application, query: dict[str, str]) -> None:
    place = "/api/v1/audit/export" if "format" in query else "/api/v1/audit"
    assert (await application.admin.get(place, params=query)).status_code == 400


@pytest.mark.feature("X3.filters")
async def test_an_export_has_every_entry_once_oldest_first_and_is_itself_recorded(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_face, "EXPORT_PAGE_ROWS", 7)
    vera = await server.user("vera", Role.OWNER)
    client = await client_of(server, vera)
    targets = ["=1+1", "\uff1d1+1", "\n=1+1"]
    await written(server, *(audit.Change(vera, f"n.{n}", "thing", targets[n % 3], {"a": 'x,"y"'}) for n in range(25)))
    lines = (await client.get("/api/v1/audit/export")).text.splitlines()
    assert [json.loads(line)["action"] for line in lines][-26:] == [*(f"n.{n}" for n in range(25)), "audit.export"]
    answer = await client.get("/api/v1/audit/export", params={"format": "csv", "action": "n"})
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["action"] for row in rows] == [f"n.{n}" for n in range(25)]
    written_as = [f"'{target}" for target in targets]
    assert [row["target_id"] for row in rows[:3]] == written_as, "a spreadsheet does not calculate it"
    assert json.loads(rows[0]["details"]) == {"a": 'x,"y"'}
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert (await actions(client, action="audit.export")) == ["audit.export"] * 2


@pytest.mark.feature("X3.filters")
async def test_an_export_reads_no_entry_in_a_transaction_that_writes(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite every other writer waited for the scan with which an export began."""
    vera = await server.user("vera", Role.OWNER)
    client = await client_of(server, vera)
    await client.get("/api/v1/me")
    statements: list[tuple[LiteralString, dict[str, Param]]] = []
    real = server.db.write

    def write(work: Any) -> Any:
        return real(lambda tx: work(RecordingTx(tx, statements)))

    monkeypatch.setattr(server.db, "write", write)
    answer = await client.get("/api/v1/audit/export", params={"text": "found nowhere"})
    assert answer.status_code == 200
    assert [sql for sql, _ in statements if "FROM audit" in sql] == []
    assert [sql for sql, _ in statements if "role_bindings" in sql], "the right is checked in the same transaction"


async def test_an_export_ends_when_the_right_to_read_ends(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_face, "EXPORT_PAGE_ROWS", 1)
    vera = await server.user("vera", Role.OWNER)
    await written(server, *(audit.Change(vera, f"n.{n}", "thing", "x") for n in range(5)))
    query = export_face.AuditQuery(action="n")
    pieces: AsyncIterator[bytes] = export_face.exported(server.db, vera, query, 9e9, is_csv=False)
    assert b"n.0" in await anext(pieces)
    await server.run("DELETE FROM role_bindings WHERE principal_id = :id", id=vera.id)
    with pytest.raises(Exception, match="may not"):
        await anext(pieces)


ONE_INDEX = [
    (EntryFilter("org_1"), "audit_of_organization"),
    (EntryFilter("org_1", actor_id="usr_1"), "audit_of_actor"),
    (EntryFilter("org_1", actor_name="ada"), "audit_of_actor_name"),
    (EntryFilter("org_1", action="job.run"), "audit_of_action"),
    (EntryFilter("org_1", target_id="job_1"), "audit_of_target"),
    (EntryFilter("org_1", path="a/b/m", is_module=True), "audit_at_path"),
    (EntryFilter("org_1", path="a"), "audit_in_stack"),
    (EntryFilter("org_1", path="a/b"), "audit_in_stack"),
    (EntryFilter("org_1", actor_name="ada", text="x", since=1.0), "audit_of_actor_name"),
]


@pytest.mark.feature("X3.filters")
@pytest.mark.parametrize(("wanted", "index"), ONE_INDEX)
async def test_each_filter_reads_its_index_in_order(database: Database, wanted: EntryFilter, index: str) -> None:
    """A statement that sorts, or that reads other rows than its index gives it, is slow with a million entries."""
    plans: list[str] = []

    class Explaining:
        def __init__(self, tx: Tx) -> None:
            self._tx, self.now = tx, tx.now

        async def all(self, sql: Any, **params: Any) -> list[Any]:
            text: Any = f"EXPLAIN {'QUERY PLAN ' if database.kind == 'sqlite' else ''}{sql}"
            plans.append("\n".join(str(tuple(row.values())) for row in await self._tx.all(text, **params)))
            return []

        async def one(self, sql: Any, **params: Any) -> None:
            await self.all(sql, **params)

    async def work(tx: Tx) -> None:
        if database.kind == "postgres":
            await tx.all("SELECT set_config('enable_seqscan', 'off', true)")
            await tx.all("SELECT set_config('enable_bitmapscan', 'off', true)")
        await reads.page(Explaining(tx), wanted, "", 50)  # pyright: ignore[reportArgumentType]

    await database.write(work)
    assert plans
    for plan in plans:
        assert index in plan, plan
        if database.kind == "sqlite":
            assert plan.count("TEMP B-TREE") <= plan.count("scanned"), plan
