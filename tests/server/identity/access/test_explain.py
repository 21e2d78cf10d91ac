"""An explanation says what authorization decides, by which role, and tells nothing that its reader may not know."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.api.access import Explanation, Role
from terracrew.errors import Forbidden, NotFound, TerracrewError
from terracrew.server.db import Tx
from terracrew.server.identity.access import explain, role_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import GRANTS, WORDS, Binding, Place, Verb, covers, decide_by_roles
from terracrew.server.principals.model import SYSTEM, Principal
from tests.builders.job_rows import change_users
from tests.server.identity.identity_server import IdentityServer

paths = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3).map("/".join)
bindings = st.lists(
    st.builds(Binding, st.uuids().map(str), st.sampled_from(Role), st.sampled_from(["group", "module"]), paths),
    max_size=5,
)


@pytest.mark.feature("X3.explain")
@given(bindings, st.sampled_from(Verb), paths, st.sampled_from(["group", "module"]))
def test_the_deciding_role_is_the_nearest_one_that_allows_it(
    held: list[Binding], verb: Verb, path: str, kind: str
) -> None:
    place = Place("o", path, "module" if kind == "module" and path else "group" if path else "organization")
    decision = decide_by_roles(held, verb, place)
    reaching = [each for each in held if covers(each.place_kind, each.path, place)]
    assert set(decision.applying) == set(reaching)
    assert decision.is_allowed == any(verb in GRANTS[each.role] for each in reaching)
    if decision.deciding is not None:
        assert verb in GRANTS[decision.deciding.role]
        nearest = max(len(each.path) for each in reaching if verb in GRANTS[each.role])
        assert len(decision.deciding.path) == nearest or decision.deciding.place_kind == "module"


async def told(server: IdentityServer, who: Principal, principal: str, verb: Verb, path: str) -> Explanation:
    return await server.db.read(lambda tx: explain.explain(tx, who, principal, verb, path))


@pytest.mark.feature("X3.explain")
async def test_an_explanation_agrees_with_authorization_for_every_principal_verb_and_place(
    server: IdentityServer,
) -> None:
    home = server.organization_id
    a = await server.group("a")
    await server.rows.group("a/b", a)
    await server.rows.module("a/m", a)
    admin = await server.user("root", is_system_admin=True)
    people = [admin, await server.user("none"), await server.user("all", Role.APPROVER)]
    people += [await server.user(f"some-{role.value}", role, "a") for role in Role]
    both = await server.user("both", Role.VIEWER)
    await server.db.write(
        lambda tx: role_store.bind_role(tx, home, "user", both.id, "operator", "module", "a/m", SYSTEM.id)
    )
    places = {"": authorize.organization(home), "a": authorize.group(home, "a"), "a/b": authorize.group(home, "a/b")}
    places["a/m"] = authorize.module(home, "a/m")
    for who, verb, (path, place) in itertools.product([*people, both], Verb, places.items()):
        found = await told(server, admin, who.name, verb, path)
        try:
            await authorize.require(server.db, who, verb, place)
            is_allowed = True
        except TerracrewError:
            is_allowed = False
        assert found.is_allowed == is_allowed, (who.name, verb, path)
        assert found.sentence.startswith(f"{who.name} may {WORDS[verb]}" if is_allowed else f"{who.name} may not ")
        assert [step.path for step in found.steps] == ["", *itertools.accumulate(path.split("/"), "{}/{}".format)][
            : len(found.steps)
        ]
        assert sum(step.is_deciding for step in found.steps) == (found.deciding is not None)
        assert bool(found.sufficient_roles) == (not is_allowed and any(verb in GRANTS[role] for role in Role))


@pytest.mark.feature("X3.explain")
async def test_an_explanation_names_the_grant_its_place_and_who_gave_it_or_what_is_missing(
    server: IdentityServer,
) -> None:
    payments = await server.group("payments")
    await server.rows.group("payments/prod", payments)
    owner = await server.user("olga", Role.OWNER, "payments")
    await server.user("ada")
    client = server.client(await server.token(owner))
    grant = {"principal": "ada", "role": "operator", "path": "payments"}
    assert (await client.post("/api/v1/roles", json=grant)).status_code == 201
    query = {"principal": "ada", "verb": "job.run", "path": "payments/prod"}
    found = (await client.get("/api/v1/access/explain", params=query)).json()
    assert (found["is_allowed"], found["reason"], found["kind"]) == (True, "role", "group")
    assert (found["deciding"]["path"], found["deciding"]["created_by_name"]) == ("payments", "olga")
    assert found["sentence"] == "ada may run jobs in `payments/prod`, because ada is operator of `payments`."
    assert [(step["path"], step["is_deciding"]) for step in found["steps"]] == [
        ("", False),
        ("payments", True),
        ("payments/prod", False),
    ]
    found = (await client.get("/api/v1/access/explain", params=query | {"verb": "job.approve"})).json()
    assert (found["is_allowed"], found["reason"], found["deciding"]) == (False, "lesser_role", None)
    assert (found["sufficient_roles"], found["can_be_granted_by"]) == (["approver", "owner"], ["olga"])
    assert "ada is only operator of `payments`: an approver may" in found["sentence"]


@pytest.mark.feature("X3.explain")
async def test_a_disabled_user_may_do_nothing_whatever_their_roles(server: IdentityServer) -> None:
    owner = await server.user("olga", Role.OWNER)
    ada = await server.user("ada", Role.OWNER)
    await change_users(server.db, ada.id, is_disabled=True)
    found = await told(server, owner, "ada", Verb.JOB_RUN, "")
    assert (found.is_allowed, found.reason, found.sufficient_roles) == (False, "disabled", [])


@pytest.mark.feature("X3.explain")
async def test_an_explanation_is_no_oracle_for_names_that_the_caller_may_not_see(server: IdentityServer) -> None:
    await server.group("a")
    hidden = await server.group("hidden")
    await server.rows.module("hidden/m", hidden)
    account, _, _ = await server.account("ci", "a")
    elsewhere = await server.organization("elsewhere")
    foreign = await server.user("foreign", Role.OWNER, organization_id=elsewhere)
    viewer, owner = await server.user("vera", Role.VIEWER, "a"), await server.user("olga", Role.OWNER, "a")

    async def refused(who: Principal, principal: str, path: str) -> tuple[type[TerracrewError], str]:
        with pytest.raises((NotFound, Forbidden)) as error:
            await told(server, who, principal, Verb.JOB_RUN, path)
        return type(error.value), error.value.message.replace(f"`{path}`", "PATH").replace(repr(principal), "WHO")

    for who in (viewer, owner, await server.user("stranger")):
        for principal in ("me", who.name, "olga", "nobody"):
            missing = await refused(who, principal, "missing")
            assert missing[0] is NotFound
            assert await refused(who, principal, "hidden") == missing
            assert await refused(who, principal, "hidden/m") == missing
    assert await refused(foreign, "me", "a") == await refused(foreign, "me", "missing")
    for principal in ("olga", "nobody", "foreign", foreign.id, account):
        assert (await refused(viewer, principal, "a"))[0] is Forbidden, "a viewer asks about nobody else"
    missing = await refused(owner, "nobody", "a")
    assert missing[0] is NotFound
    for principal in ("foreign", foreign.id, "no\0body", "x" * 5000):
        assert (await refused(owner, principal, "a"))[0] is NotFound
    assert await refused(owner, "foreign", "a") == missing


async def test_somebody_without_a_role_learns_of_no_owner(server: IdentityServer) -> None:
    await server.user("olga", Role.OWNER)
    stranger, viewer = await server.user("stranger"), await server.user("vera", Role.VIEWER)
    assert (await told(server, stranger, "me", Verb.JOB_RUN, "")).can_be_granted_by == []
    assert (await told(server, viewer, "me", Verb.JOB_RUN, "")).can_be_granted_by == ["olga"]


async def test_a_service_account_asks_about_itself_and_is_found_by_its_path(server: IdentityServer) -> None:
    await server.group("a")
    account, _, _ = await server.account("ci", "a")
    await server.db.write(lambda tx: _bound(tx, server.organization_id, account))
    owner = await server.user("olga", Role.OWNER, "a")
    for name in ("a/ci", account):
        found = await told(server, owner, name, Verb.JOB_RUN, "a")
        assert (found.principal_kind, found.principal_id, found.is_allowed) == ("service_account", account, True)
    own = Principal("service_account", account, "ci", server.organization_id)
    assert (await told(server, own, "me", Verb.JOB_APPROVE, "a")).is_allowed is False
    runner = Principal("runner", "rnr_1", "crew", server.organization_id)
    with pytest.raises(Forbidden):
        await told(server, runner, "me", Verb.JOB_RUN, "a")


async def _bound(tx: Tx, organization_id: str, account: str) -> None:
    await role_store.bind_role(tx, organization_id, "service_account", account, "operator", "group", "a", SYSTEM.id)


async def test_a_verb_or_a_path_that_does_not_exist_is_refused(server: IdentityServer) -> None:
    client = server.client(await server.token(await server.user("olga", Role.OWNER)))
    for query in ({"verb": "job.fly"}, {}, {"verb": "job.run", "path": "A B"}, {"verb": "job.run", "path": "../x"}):
        assert (await client.get("/api/v1/access/explain", params=query)).status_code == 400
