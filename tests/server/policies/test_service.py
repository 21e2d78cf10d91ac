"""Policies are made, changed, activated and retired by those who may change their place, and every change is in the audit log."""

import msgspec
import pytest

from terracrew.api.policies import NewPolicyVersion, PolicyChange
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.db.seam import Database
from terracrew.server.identity.access import role_store
from terracrew.server.policies import service
from terracrew.server.policies.opa import Opa
from terracrew.server.principals.model import Principal
from tests.builders.job_rows import change_modules
from tests.server.policies.looking import NEVER, NO_DELETE, Looking

pytestmark = [pytest.mark.platform("opa")]
REFUSED = {
    "package other\ndeny contains 1 if true": "its first line is `package terracrew`",
    "package terracrew\ndeny if true": "`deny` is a set of messages",
    "package terracrew\nx := 1": "there is no rule `deny contains message",
    "package terracrew\ndeny contains 1 if http.send({})": "line 2, column 20: undefined function http.send",
    "package terracrew\ndeny contains 1 if time.now_ns() > 1": "line 2, column 20: undefined function time.now_ns",
    "package terracrew\ndeny contains 1 if no_such(1)": "line 2, column 20: undefined function no_such",
    "package terracrew\ndeny contains 1 if data.other.x": "`data.other` is not known here",
    "package terracrew\nimport data.other\ndeny contains 1 if other.x": "`data.other` is not known here",
    "package terracrew\ndeny contains 1 if data[input.plan.x]": "`data.…` is not known here",
    "package terracrew\ndeny contains 1 if { all := data; all.x }": "`data.…` is not known here",
    "package terracrew\ndeny contains 1 if input.plann.x": "line 2, column 20: undefined ref: input.plann",
    "package terracrew\ndeny contains 1 if {": "line 2, column 20: unexpected eof token",
}


@pytest.mark.feature("P3.refused")
@pytest.mark.parametrize("rego", REFUSED)
async def test_rego_that_would_never_deny_anything_is_refused(rego: str) -> None:
    with pytest.raises(Invalid) as refused:
        await Opa().check(rego)
    assert refused.value.field == "rego"
    assert REFUSED[rego] in refused.value.message


async def test_versions_are_numbered_and_one_of_them_is_active(looking: Looking) -> None:
    made = await looking.policy(is_active=False)
    assert (made.state, made.active_version, made.newest_version) == ("draft", None, 1)
    with pytest.raises(Conflict, match="has the same text"):
        await looking.policies.add_version(looking.who, made.path, NewPolicyVersion(rego=NO_DELETE))
    await looking.policies.add_version(looking.who, made.path, NewPolicyVersion(rego=NEVER))
    assert (await looking.activate("rule", 1)).active_version == 1
    with pytest.raises(NotFound, match="has no version 3"):
        await looking.activate("rule", 3)
    shown = await looking.rows.db.read(lambda tx: service.show(tx, looking.who, "rule"))
    assert [each.number for each in shown.versions] == [2, 1]
    retired = await looking.rows.db.write(lambda tx: service.retire(tx, looking.who, "rule"))
    assert (retired.state, retired.active_version) == ("retired", None)
    actions = await looking.rows.db.read(lambda tx: tx.all("SELECT action FROM audit ORDER BY id"))
    assert [row["action"] for row in actions] == [
        "policy.create",
        "policy.version",
        "policy.activate",
        "policy.retire",
    ]


async def test_only_those_who_may_change_a_place_may_change_its_policies(looking: Looking) -> None:
    made = await looking.policy()
    stranger = Principal("user", "usr_2", "mallory", looking.rows.organization)
    db = looking.rows.db
    with pytest.raises((Forbidden, NotFound)):
        await looking.policies.activate(stranger, made.path, service.PolicyActivation())
    with pytest.raises((Forbidden, NotFound)):
        await db.write(
            lambda tx: service.change(
                tx, stranger, made.path, msgspec.convert({"enforcement": "advisory"}, PolicyChange)
            )
        )
    with pytest.raises((Forbidden, NotFound)):
        await db.write(lambda tx: service.retire(tx, stranger, made.path))
    with pytest.raises((Forbidden, NotFound)):
        await db.write(lambda tx: service.delete(tx, stranger, made.path))


async def test_a_server_without_the_program_stores_drafts_and_activates_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("TERRACREW_CACHE", "/nowhere")
    looking = await Looking.make(database)
    made = await looking.policy(is_active=False)
    with pytest.raises(Exception, match="Open Policy Agent is not installed on the server"):
        await looking.activate(made.path)


async def test_a_list_has_what_looks_at_the_plans_of_a_place(looking: Looking) -> None:
    await change_modules(looking.rows.db, looking.module, path="web")
    await looking.policy(name="of-all")
    await looking.policy(name="of-web", place="web", is_active=False)

    async def names(at: str | None) -> list[str]:
        found = await looking.rows.db.read(lambda tx: service.listing(tx, looking.who, at))
        return [each.path for each in found.items]

    assert await names(None) == ["of-all", "web/of-web"]
    assert await names("/") == ["of-all"]
    assert await names("web") == ["of-all", "web/of-web"]
    stranger = Principal("user", "usr_2", "mallory", looking.rows.organization)
    found = await looking.rows.db.read(lambda tx: service.listing(tx, stranger))
    assert found.items == []
    with pytest.raises((Forbidden, NotFound)):
        await looking.rows.db.read(lambda tx: service.listing(tx, stranger, "web"))


async def test_who_may_see_a_module_reads_the_policies_that_look_at_its_plans(looking: Looking) -> None:
    """The page of a job named the policy that had stopped it, and its link said that there is no such policy."""
    rows = looking.rows
    await rows.module("web/shop", await rows.group("web"))
    await rows.group("other")
    for place in ("", "web", "web/shop", "other"):
        await looking.policy(place=place, is_active=False)
    bound = ("user", "usr_2", "viewer", "module", "web/shop", "test", None)
    await rows.insert("users", id="usr_2", name="vera")
    await rows.db.write(lambda tx: role_store.bind_role(tx, rows.organization, *bound))
    viewer = Principal("user", "usr_2", "vera", rows.organization)
    found = await rows.db.read(lambda tx: service.listing(tx, viewer))
    assert [each.path for each in found.items] == ["rule", "web/rule", "web/shop/rule"]
    for each in found.items:
        shown = await rows.db.read(lambda tx, path=each.path: service.show(tx, viewer, path))
        assert shown.versions[0].rego == NO_DELETE
        with pytest.raises(Forbidden):
            await rows.db.write(lambda tx, path=each.path: service.retire(tx, viewer, path))
    with pytest.raises(NotFound):
        await rows.db.read(lambda tx: service.show(tx, viewer, "other/rule"))
