"""An engine at a terminal writes states under the lock that its person holds, and under no other circumstances."""

import hashlib
import json
from typing import Any

import msgspec
import pytest

from terracrew import errors
from terracrew.api.locks import TakeLock
from terracrew.api.states import State
from terracrew.errors import Conflict, Forbidden, Locked
from terracrew.server.principals.model import Principal
from terracrew.server.state import importing, locks, quarantine, store, writing
from terracrew.server.state.model import MAX_INLINE_BYTES
from terracrew.server.state.writing import StateWrite
from tests.builders.job_rows import change_modules
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("J15.lock")
APPLY = TakeLock(client_lock_id="c1", operation="OperationTypeApply")
INTERMEDIATE = StateWrite(is_intermediate=True)
FORCED = StateWrite(is_forced=True)


def content(serial: int, lineage: str = "a", **more: Any) -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": [], **more}).encode()


class Terminal:
    """A person with a token who works on the module `m`."""

    def __init__(self, application: Application, who: Principal) -> None:
        self.application, self.who = application, who

    async def lock(self, asked: TakeLock = APPLY) -> None:
        await self.application.server.db.write(lambda tx: locks.take(tx, self.who, "m", asked))

    async def unlock(self) -> None:
        await self.application.server.db.write(lambda tx: locks.release(tx, self.who, "m"))

    async def force(self) -> None:
        await self.application.server.db.write(lambda tx: locks.force(tx, self.who, "m"))

    async def write(self, plain: bytes, how: StateWrite = StateWrite()) -> State:  # noqa: B008
        return await writing.write(self.application.server.staging, self.who, "m", importing.read(plain), how)

    async def facts(self) -> store.VersionFacts:
        module = await self.application.scalar("SELECT id FROM modules WHERE path = 'm'")
        return await self.application.server.db.read(lambda tx: store.version_facts(tx, module))


async def terminal(application: Application, name: str = "ann", role: str = "owner", token: str = "tok_1") -> Terminal:
    person = await application.person(name, role)
    return Terminal(application, msgspec.structs.replace(person.principal, credential_id=token, credential="token"))


@pytest.fixture
async def ann(application: Application) -> Terminal:
    await application.admin.made(
        "/api/v1/modules", {"path": "m", "source": {"kind": "local", "path": "/srv/sources/m"}}
    )
    return await terminal(application)


@pytest.mark.parametrize("size", [0, MAX_INLINE_BYTES])
async def test_a_state_that_was_written_in_order_is_current_and_asks_for_nothing(
    application: Application, ann: Terminal, size: int
) -> None:
    await ann.lock()
    await ann.write(content(1), INTERMEDIATE)
    last = content(2, padding="x" * size)
    made = await ann.write(last)
    assert (made.version, made.serial, made.origin, made.brought_by) == (2, 2, "terminal", ann.who.id)
    assert made.sha256 == hashlib.sha256(last).hexdigest()
    assert (await ann.write(last)).id == made.id, "a request whose answer was lost is repeated"
    await ann.unlock()
    facts = await ann.facts()
    assert (facts.version, facts.is_brought, facts.is_replaced, facts.lock_doubt) == (2, False, False, "")
    assert (await application.admin.get("/api/v1/modules/m/state")).content == last
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'state.write'") == 2


async def test_nobody_else_writes_and_nobody_without_the_lock(application: Application, ann: Terminal) -> None:
    bob = await terminal(application, "bob")
    with pytest.raises(Locked, match="you do not hold the lock of `m`"):
        await ann.write(content(1))
    await ann.lock()
    other_token = Terminal(application, msgspec.structs.replace(ann.who, credential_id="tok_2"))
    for each, how in (
        (bob, StateWrite()),
        (bob, StateWrite(client_lock_id="c1")),
        (bob, FORCED),
        (other_token, StateWrite(client_lock_id="c1")),
        (ann, StateWrite(client_lock_id="c2")),
    ):
        with pytest.raises(Locked, match="locked by ann's terminal"):
            await each.write(content(1), how)
    otto = await terminal(application, "otto", "operator")
    with pytest.raises(Forbidden):
        await otto.write(content(1))
    assert await application.scalar("SELECT count(*) FROM states") == 0
    assert (await ann.write(content(1), StateWrite(client_lock_id="c1"))).version == 1


async def test_a_state_must_continue_the_current_one_unless_it_is_forced(ann: Terminal) -> None:
    await ann.lock()
    await ann.write(content(5))
    for wrong, words in (
        (content(4), "so it is not newer"),
        (content(5, x=1), "not newer"),
        (content(6, "b"), "another lineage"),
    ):
        with pytest.raises(Conflict, match=words):
            await ann.write(wrong)
    made = await ann.write(content(1, "b"), FORCED)
    assert (made.version, made.lineage) == (2, "b")


async def test_a_late_write_after_a_removed_lock_is_kept_in_quarantine(application: Application, ann: Terminal) -> None:
    await ann.lock()
    await ann.write(content(1), INTERMEDIATE)
    await ann.force()
    late = StateWrite(client_lock_id="c1")
    with pytest.raises(Locked, match="removed by force, so this state did not become the current one") as refused:
        await ann.write(content(2), late)
    with pytest.raises(Locked) as again:
        await ann.write(content(2), late)
    assert again.value.details == refused.value.details, "a repetition is kept once"
    with pytest.raises(Locked, match="you do not hold the lock"):
        await ann.write(content(3), StateWrite(client_lock_id="never"))
    facts = await ann.facts()
    assert (facts.has_quarantine, facts.lock_doubt) == (True, "the lock that ann's terminal held was removed by force")
    [shown] = (await application.admin.get("/api/v1/modules/m")).json()["quarantined"]
    assert (shown["id"], shown["number"], shown["written_by"]) == (refused.value.details["state_id"], 0, "ann")
    job = await application.admin.made("/api/v1/modules/m/jobs", {"type": "PLAN"})
    reason = (await application.admin.get(f"/api/v1/jobs/{job['id']}")).json()["reason"]
    assert reason["code"] == "quarantine"
    assert "a person wrote at a terminal" in reason["text"]
    state_id = refused.value.details["state_id"]
    page = await (await logged_in(application)).see(f"/dashboard/modules/{job['module_id']}")
    assert "ann at a terminal, after the lock had been removed by force" in page
    adopted = await application.server.db.write(lambda tx: quarantine.adopt(tx, ann.who, state_id))
    assert adopted.status == "current"
    assert (await ann.facts()).lock_doubt, "a person has decided about the state, and nobody about what is in none"


async def test_late_states_are_bounded(monkeypatch: pytest.MonkeyPatch, ann: Terminal) -> None:
    monkeypatch.setattr(writing, "MAX_LATE_STATES", 2)
    await ann.lock()
    await ann.force()
    for serial in (1, 2):
        with pytest.raises(Locked):
            await ann.write(content(serial))
    with pytest.raises(Conflict, match="2 states that you have written without a lock"):
        await ann.write(content(3))


async def test_a_lock_that_ends_in_the_middle_of_a_change_leaves_a_doubt_that_the_next_one_ends(ann: Terminal) -> None:
    await ann.lock()
    await ann.write(content(1), INTERMEDIATE)
    await ann.unlock()
    assert "in the middle of a change" in (await ann.facts()).lock_doubt
    await ann.lock()
    await ann.unlock()
    assert (await ann.facts()).lock_doubt, "nothing was written"
    await ann.lock()
    await ann.write(content(2))
    await ann.unlock()
    assert (await ann.facts()).lock_doubt == ""


async def test_outputs_from_before_a_state_of_a_terminal_are_outdated(application: Application, ann: Terminal) -> None:
    assert (await application.admin.get("/api/v1/modules/m/outputs")).json()["outdated_since"] is None
    await ann.lock()
    await ann.write(content(1))
    outputs = (await application.admin.get("/api/v1/modules/m/outputs")).json()
    assert outputs["outdated_since"]
    assert outputs["outdated_by"] is None


async def test_a_module_that_keeps_its_state_elsewhere_takes_none(application: Application, ann: Terminal) -> None:
    await ann.lock()
    await change_modules(application.server.db, backend="own")
    with pytest.raises(errors.Conflict, match="keeps its state in the backend"):
        await ann.write(content(1))
