"""The database decides which jobs a reader may list, at a cost that does not grow with the number of rows."""

import itertools
import random
from datetime import timedelta
from typing import Any

import pytest

from terracrew import ids
from terracrew.api.access import Role
from terracrew.api.job_views import JobListed
from terracrew.api.jobs import JobStatus
from terracrew.api.pages import Page
from terracrew.errors import NotFound
from terracrew.server import paging
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Columns, Database, Param, Row, Tx
from terracrew.server.identity.access import role_store
from terracrew.server.jobs import service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import lists, reasons
from tests.builders.job_rows import JobRows

LEASE = timedelta(minutes=10)
EVERYTHING = lists.Query()


class CountingTx:
    """A transaction that counts the statements it is given."""

    value, each_id = Tx.value, Tx.each_id
    moment = Tx.moment

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.statements = 0
        self.rows = 0

    @property
    def now(self) -> float:
        return self._tx.now

    async def all(self, sql: Any, /, **params: Param) -> list[Row]:
        return self._counted(await self._tx.all(sql, **params))

    async def one(self, sql: Any, /, **params: Param) -> Row | None:
        self.statements += 1
        return await self._tx.one(sql, **params)

    async def each(self, sql: Any, columns: Columns, rows: Any) -> list[Row]:
        found = await self._tx.each(sql, columns, rows)
        return self._counted(found) if rows else []  # nothing is asked about nothing

    def _counted(self, rows: list[Row]) -> list[Row]:
        self.statements += 1
        self.rows += len(rows)
        return rows


class Company:
    """A small tree: two teams with two projects each, a module in every group, and readers with roles in it."""

    def __init__(self, rows: JobRows) -> None:
        self.rows = rows
        self.registry = (
            Registry()
        )  # its server was there before every runner, so that none counts as being on its way back
        self.groups = {"": rows.root}
        self.modules: dict[str, str] = {}

    @classmethod
    async def make(cls, db: Database) -> "Company":
        made = cls(await JobRows.make(db))
        for path in ("a", "a/x", "a/y", "ab", "ab/x"):
            await made._group(path)
            module = f"{path}/m"
            made.modules[module] = await made.rows.module(module, made.groups[path])
        return made

    async def _group(self, path: str) -> None:
        self.groups[path] = await self.rows.group(path, self.groups[path.rpartition("/")[0]])

    async def reader(self, *places: str) -> Principal:
        """A user with the role of a viewer at groups, and at modules."""
        who = Principal("user", ids.new("usr"), "reader", self.rows.organization)

        async def bind(tx: Tx) -> None:
            for path in places:
                kind = "module" if path in self.modules else "group"
                await role_store.bind_role(tx, self.rows.organization, "user", who.id, Role.VIEWER, kind, path, "test")

        await self.rows.db.write(bind)
        return who

    async def page(
        self, who: Principal, query: lists.Query = EVERYTHING, after: str | None = None, limit: int = 50
    ) -> tuple[Page[JobListed], CountingTx]:
        watch = reasons.Watch(self.registry, LEASE, who)

        async def read(tx: Tx) -> tuple[Page[JobListed], CountingTx]:
            counting = CountingTx(tx)
            page = await lists.listing(counting, who, query, after, limit, watch)  # pyright: ignore[reportArgumentType]
            return page, counting

        return await self.rows.db.read_in_background(read)


@pytest.fixture
async def company(database: Database) -> Company:
    return await Company.make(database)


async def test_a_page_of_jobs_takes_the_same_number_of_statements_whatever_there_is(company: Company) -> None:
    """One `GET /jobs` took 0.2 s with 20 instances in the database, and 14 s with 20,000: each job read all of them."""
    who, world = await company.reader("a"), company.rows
    await world.runner()
    await world.job(company.modules["a/m"])
    page, few = await company.page(who)
    assert [job.reason is not None for job in page.items] == [True]
    for module in (company.modules["a/m"], company.modules["a/x/m"]):
        for _ in range(10):
            await world.job(module)
    for _ in range(10):
        await world.runner()
    page, many = await company.page(who)
    assert (len(page.items), all(job.reason is not None for job in page.items)) == (21, True)
    assert many.statements == few.statements


async def test_a_user_without_a_role_gets_an_empty_page_without_any_row_being_read(company: Company) -> None:
    """Any user who was logged in, without any role, froze the server for ten minutes with `GET /jobs?limit=1`."""
    for module in company.modules.values():
        await company.rows.job(module)
    page, counted = await company.page(await company.reader(), limit=1)
    assert (page.items, page.next, counted.rows) == ([], None, 0)
    assert counted.statements == 1, "only the roles are asked for"


@pytest.mark.feature("X3.roles")
async def test_every_reader_gets_exactly_the_jobs_of_the_modules_that_it_may_see(company: Company) -> None:
    randomly = random.Random(7)
    statuses = ["QUEUED", "SUCCEEDED", "FAILED"]
    for number in range(40):
        await company.rows.job(randomly.choice(list(company.modules.values())), statuses[number % 3])
    administrator = Principal("user", ids.new("usr"), "root", company.rows.organization, is_system_admin=True)
    everything, _ = await company.page(administrator)
    assert len(everything.items) == 40
    places = ("", "a", "a/x", "ab/x", "a/m", "ab/m")
    for chosen in itertools.chain(itertools.combinations(places, 1), itertools.combinations(places, 2)):
        who = await company.reader(*chosen)
        seen = await authorize.visible(company.rows.db, who, Verb.JOB_READ)
        visible = [
            job for job in everything.items if seen.covers(authorize.module(job.organization_id, job.module_path))
        ]
        for query in (
            lists.Query(),
            lists.Query(JobStatus.FAILED),
            lists.Query(is_open=True),
            lists.Query(module="a/x/m"),
        ):
            wanted = [
                job.id
                for job in visible
                if query.status in (None, job.status)
                and (not query.is_open or not job.is_terminal)
                and query.module in (None, job.module_path)
            ]
            assert await _all_pages(company, who, query) == wanted, (chosen, query)


async def _all_pages(company: Company, who: Principal, query: lists.Query) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page, _ = await company.page(who, query, after, limit=3)
        found += [job.id for job in page.items]
        if (after := page.next) is None:
            return found
        assert paging.start(after) == found[-1]


@pytest.mark.feature("X3.roles", "X4.tenants")
async def test_a_reason_does_not_name_a_runner_that_its_reader_may_not_see(company: Company) -> None:
    """A user who could see one module read in the reason of its job which runners the groups above it have."""
    runner = await company.rows.runner()
    await runner.disconnect()
    await company.rows.job(company.modules["a/m"])
    hidden, _ = await company.page(await company.reader("a"))
    assert hidden.items[0].reason is not None
    assert hidden.items[0].reason.code == "no_credential"
    assert runner.runner_id not in f"{hidden.items[0].reason.text} {hidden.items[0].reason.link}"
    assert "a runner that you may not see" in hidden.items[0].reason.text
    shown, _ = await company.page(await company.reader(""))
    assert shown.items[0].reason is not None
    assert runner.runner_id in shown.items[0].reason.text


@pytest.mark.feature("X3.roles", "X4.tenants")
async def test_a_job_that_one_may_not_see_looks_like_a_number_that_nobody_has_used(company: Company) -> None:
    """The answer to its number named its id, so that anybody could count all jobs and learn when each was made."""
    await company.rows.job(company.modules["ab/m"])
    everything, _ = await company.page(await company.reader(""))
    number = str(everything.items[0].number)
    stranger = await company.reader("a")
    for asked in (number, "99999"):
        with pytest.raises(NotFound, match=rf"^there is no job number {asked}$"):
            await company.rows.db.read(lambda tx, asked=asked: service.find(tx, stranger, asked, Verb.JOB_READ))
