"""Every role, verb and kind of principal is allowed exactly what the matrix says."""

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.api.access import Role
from terracrew.errors import Forbidden, NotFound
from terracrew.server.db import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import (
    SERVER,
    Place,
    Verb,
    allows,
    covers,
    group,
    module,
    organization,
    require,
)
from terracrew.server.principals.model import SYSTEM, AttemptScope, Principal
from tests.server.identity.identity_server import IdentityServer

# What each role may do, written out by hand: v viewer, o operator, a approver, w owner.
MATRIX = {
    "tree.read": "voaw",
    "tree.write": "w",
    "job.read": "voaw",
    "job.run": "oaw",
    "job.cancel": "oaw",
    "job.approve": "aw",
    "state.read": "oaw",
    "state.write": "w",
    "secret.use": "oaw",
    "secret.set": "w",
    "runner.read": "voaw",
    "runner.write": "w",
    "access.read": "w",
    "access.write": "w",
    "audit.read": "w",
    "server.admin": "",
    "hub.connect": "",
    "attempt.report": "",
    "attempt.read": "",
}
LETTER = {Role.VIEWER: "v", Role.OPERATOR: "o", Role.APPROVER: "a", Role.OWNER: "w"}
names = st.sampled_from(["a", "b", "ab"])
paths = st.lists(names, max_size=4).map("/".join)


def test_the_matrix_names_every_verb() -> None:
    assert set(MATRIX) == {verb.value for verb in Verb}


@pytest.mark.feature("X3.roles")
@pytest.mark.parametrize(("role", "verb"), list(itertools.product(Role, Verb)))
def test_each_role_may_do_exactly_what_the_matrix_says(role: Role, verb: Verb) -> None:
    assert allows(frozenset({role}), verb) == (LETTER[role] in MATRIX[verb])


@given(st.frozensets(st.sampled_from(Role)), st.sampled_from(Verb))
def test_roles_add_up_and_a_higher_one_includes_the_lower(roles: frozenset[Role], verb: Verb) -> None:
    assert allows(roles, verb) == any(LETTER[role] in MATRIX[verb] for role in roles)
    ladder = [allows(frozenset({role}), verb) for role in Role]
    assert ladder == sorted(ladder)


@pytest.mark.feature("X3.roles")
@given(paths, paths, st.sampled_from(["group", "module"]))
def test_a_role_at_a_group_holds_there_and_below_and_nowhere_else(bound: str, path: str, kind: str) -> None:
    place = Place("o", path, "module" if kind == "module" else "group")
    bound_names, path_names = bound.split("/") if bound else [], path.split("/") if path else []
    is_below = path_names[: len(bound_names)] == bound_names and len(path_names) > len(bound_names)
    is_there = kind == "group" and path == bound
    assert covers("group", bound, place) == (is_below or is_there or bound == "")


@given(paths, paths, st.sampled_from(["group", "module"]))
def test_a_role_at_a_module_holds_for_that_module_only(bound: str, path: str, kind: str) -> None:
    place = Place("o", path, "module" if kind == "module" else "group")
    assert covers("module", bound, place) == (kind == "module" and path == bound)


@given(paths, st.sampled_from(["group", "module"]))
def test_no_binding_reaches_the_server_itself(bound: str, kind: str) -> None:
    assert not covers(kind, bound, SERVER)


async def outcome(server: IdentityServer, who: Principal, verb: Verb, place: Place) -> str:
    try:
        await require(server.db, who, verb, place)
    except Forbidden:
        return "forbidden"
    except NotFound:
        return "not found"
    return "yes"


@pytest.mark.feature("X3.roles")
async def test_bindings_are_inherited_downwards_and_other_places_do_not_exist(server: IdentityServer) -> None:
    await server.group("a")
    await server.group("ab")
    who = await server.user("vera", Role.OPERATOR, "a")
    home = server.organization_id
    expected = {
        group(home, "a"): "yes",
        group(home, "a/b/c"): "yes",
        module(home, "a/m"): "yes",
        group(home, "ab"): "not found",
        module(home, "ab/m"): "not found",
        module(home, "a"): "not found",
        organization(home): "forbidden",
        SERVER: "forbidden",
    }
    assert {place: await outcome(server, who, Verb.JOB_RUN, place) for place in expected} == expected
    assert await outcome(server, who, Verb.JOB_APPROVE, group(home, "a/b")) == "forbidden"


@pytest.mark.feature("X3.roles")
async def test_a_role_at_one_module_is_not_one_at_its_neighbour(server: IdentityServer) -> None:
    await server.attempt("net")
    who = await server.user("mo")
    home = server.organization_id
    await server.db.write(lambda tx: role_store.bind_role(tx, home, "user", who.id, "viewer", "module", "net", "x"))
    assert await outcome(server, who, Verb.JOB_READ, module(home, "net")) == "yes"
    assert await outcome(server, who, Verb.JOB_RUN, module(home, "net")) == "forbidden"
    assert await outcome(server, who, Verb.JOB_READ, module(home, "net2")) == "not found"
    assert await outcome(server, who, Verb.TREE_READ, group(home, "net")) == "not found"


async def test_a_group_that_is_made_again_starts_without_the_old_roles(server: IdentityServer) -> None:
    first = await server.group("a")
    who = await server.user("vera", Role.OWNER, "a")
    await server.run("DELETE FROM groups WHERE id = :id", id=first)
    await server.group("a")
    assert await outcome(server, who, Verb.TREE_READ, group(server.organization_id, "a")) == "not found"


async def test_another_organization_does_not_exist_for_its_owner_and_is_open_to_an_administrator(
    server: IdentityServer,
) -> None:
    other = await server.organization("other")
    foreigner = await server.user("eve", Role.OWNER, organization_id=other)
    admin = await server.user("root", is_system_admin=True)
    place = organization(server.organization_id)
    for verb in Verb:
        assert await outcome(server, foreigner, verb, place) == "not found"
        machine_only = verb in (Verb.HUB_CONNECT, Verb.ATTEMPT_REPORT, Verb.ATTEMPT_READ)
        assert await outcome(server, admin, verb, place) == ("forbidden" if machine_only else "yes")
        assert await outcome(server, SYSTEM, verb, place) == ("forbidden" if machine_only else "yes")


@pytest.mark.feature("X4.executor")
async def test_a_jobs_credentials_reach_their_own_job_and_module_only(server: IdentityServer) -> None:
    home = server.organization_id
    ref = AttemptScope("job_1", 2, home, "mod_1", "a/net", "rnr_1")
    executor = Principal("executor", "job_1.2", "x", home, attempt=ref)
    engine = Principal("engine", "job_1.2", "x", home, attempt=ref)
    own, superseding = module(home, "a/net", "job_1", 2), module(home, "a/net", "job_1", 3)
    may = {
        "executor": {Verb.ATTEMPT_REPORT, Verb.ATTEMPT_READ},
        "engine": {Verb.ATTEMPT_READ, Verb.JOB_READ, Verb.STATE_READ},
    }
    elsewhere = [
        module(home, "a/other", "job_1", 2),
        module("org_2", "a/net", "job_1", 2),
        group(home, "a/net"),
        organization(home),
        SERVER,
    ]
    for verb in Verb:
        for who in (executor, engine):
            assert await outcome(server, who, verb, own) == ("yes" if verb in may[who.kind] else "forbidden")
            assert {await outcome(server, who, verb, place) for place in elsewhere} == {"not found"}
        for other in (module(home, "a/net", "job_2", 2), module(home, "a/net")):
            assert await outcome(server, executor, verb, other) == "forbidden"
            assert await outcome(server, engine, verb, other) == ("yes" if verb is Verb.STATE_READ else "forbidden")
        assert await outcome(server, executor, verb, superseding) == "forbidden"


class Runner(NamedTuple):
    id: str
    organization_id: str | None
    service_account_id: str | None


@pytest.mark.feature("A5.one")
def test_a_credential_serves_exactly_the_runners_that_are_its_own() -> None:
    bound, unbound, foreign = Runner("r1", "o", "s1"), Runner("r2", "o", None), Runner("r1", "p", "s1")
    shared = Runner("r3", None, None)
    worker, account = Principal("runner", "r1", "", "o"), Principal("service_account", "s1", "", "o")
    built_in = Principal("runner", "r3", "", None)
    table = {
        worker: [bound],
        account: [bound],
        built_in: [shared],
        Principal("service_account", "s2", "", "o"): [],
        Principal("user", "r1", "", "o", is_system_admin=True): [],
        Principal("executor", "r1", "", "o"): [],
    }
    for who, own in table.items():
        for runner in (bound, unbound, foreign, shared):
            assert authorize.may_serve_runner(who, runner) == (runner in own)
            if runner not in own:
                with pytest.raises(NotFound):
                    authorize.require_runner(who, runner)


async def test_what_is_visible_in_lists_is_what_require_would_allow(server: IdentityServer) -> None:
    home = server.organization_id
    for path in ("a", "b"):
        await server.group(path)
    people = [
        await server.user("none"),
        await server.user("root", is_system_admin=True),
        await server.user("all", Role.VIEWER),
        await server.user("some", Role.OWNER, "a"),
        Principal("runner", "rnr_1", "", home),
    ]
    places = [group(home, "a"), group(home, "b"), module(home, "a/m"), organization(home), group("org_x", "a")]
    for who, verb in itertools.product(people, Verb):
        seen = await authorize.visible(server.db, who, verb)
        for place in places:
            assert seen.covers(place) == (await outcome(server, who, verb, place) == "yes"), (who, place)


async def test_require_works_within_a_transaction_too(server: IdentityServer) -> None:
    who = await server.user("vera", Role.VIEWER)

    async def work(tx: Tx) -> None:
        await require(tx, who, Verb.TREE_READ, organization(server.organization_id))
        with pytest.raises(Forbidden):
            await require(tx, who, Verb.TREE_WRITE, organization(server.organization_id))

    await server.db.write(work)


@pytest.mark.parametrize(
    ("verb", "place", "words"),
    [
        (Verb.JOB_RUN, module("o", "a/b"), "run jobs in the module `a/b`: ask an owner for the role operator"),
        (
            Verb.TREE_WRITE,
            group("o", "net"),
            "change groups and modules in the group `net`: ask an owner for the role owner",
        ),
        (Verb.AUDIT_READ, organization("o"), "read the audit log in the organization: ask an owner for the role owner"),
        (Verb.SERVER_ADMIN, SERVER, "administer the server: only an administrator of the server may"),
        (Verb.HUB_CONNECT, organization("o"), "connect as a runner: only machines may"),
    ],
)
def test_a_refusal_says_what_one_may_not_do_where_and_which_role_is_missing(
    verb: Verb, place: Place, words: str
) -> None:
    """It was `you may not tree.read here (organization)`."""
    assert authorize.forbidden(verb, place).message == f"you may not {words}"
