"""Groups that an identity provider manages give roles by the rules of single sign-on, and take them away again."""

import pytest

from terracrew.api.access import Role
from terracrew.api.provisioning import NewProvisioner
from terracrew.api.sso import DryRunRule, NewProvider, NewRule
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.provisioning import owners
from terracrew.server.identity.provisioning import store as provisioning_store
from terracrew.server.identity.sso import insight, providers, store
from terracrew.server.principals.model import Principal
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in, visitor
from tests.server.identity.sso.conftest import ADA, GRACE, SignOn
from tests.server.identity.sso.provider_logins import manager
from tests.server.scim.conftest import BASE, Directory, directory_of

pytestmark = pytest.mark.feature("P1.provisioned")


class Rules:
    """The rules of a provider that nobody can log in at yet."""

    def __init__(self, application: Application, provider_id: str) -> None:
        self._application, self.provider_id = application, provider_id

    @property
    def owner(self) -> Principal:
        return manager(self._application)

    async def add(self, value: str, role: Role, path: str = "") -> str:
        db = self._application.server.db
        return (await providers.add_rule(db, self.owner, self.provider_id, NewRule(value, role, path))).id

    async def roles(self, user_id: str) -> set[tuple[str, str]]:
        async def read(tx: Tx) -> set[tuple[str, str]]:
            found = await role_store.roles_of_source(tx, [user_id], self.provider_id)
            return {(each.role.value, each.path) for each in found}

        return await self._application.server.db.read(read)


@pytest.fixture
async def rules(application: Application) -> Rules:
    identity = application.server.identity
    new = NewProvider(name="Corp", issuer="https://idp.example.com")
    made = await providers.create(identity.db, identity.keys, identity.sso.trust, manager(application), new)
    await application.admin.made("/api/v1/groups", {"path": "data"})
    return Rules(application, made.id)


async def test_a_group_gives_roles_before_a_first_login_and_takes_them_away(
    application: Application, directory: Directory, rules: Rules
) -> None:
    ada, grace = await directory.person("ada@example.com"), await directory.person("grace@example.com")
    await application.admin.made("/api/v1/roles", {"principal": grace["id"], "role": "approver", "path": "data"})
    await rules.add("platform", Role.OPERATOR)
    await rules.add("9e1c", Role.VIEWER, "data")
    group = await directory.made(
        "Groups", displayName="platform", members=[{"value": ada["id"]}, {"value": grace["id"]}]
    )
    assert await rules.roles(ada["id"]) == {("operator", "")} == await rules.roles(grace["id"])
    remove = {"op": "Remove", "path": f'members[value eq "{grace["id"]}"]'}
    assert [each["value"] for each in (await directory.patched(f"Groups/{group['id']}", remove))["members"]] == [
        ada["id"]
    ]
    assert await rules.roles(grace["id"]) == set()
    held = await application.admin.listed("/api/v1/roles", principal=grace["id"])
    assert [(each["role"], each["path"]) for each in held] == [("approver", "data")], "what a person granted stays"
    await directory.patched(f"Groups/{group['id']}", {"op": "Replace", "path": "externalId", "value": "9e1c"})
    assert await rules.roles(ada["id"]) == {("operator", ""), ("viewer", "data")}, "the id of a group counts, too"
    await directory.patched(f"Groups/{group['id']}", {"op": "replace", "value": {"displayName": "others"}})
    assert await rules.roles(ada["id"]) == {("viewer", "data")}
    wanted = DryRunRule(rule=NewRule("others", Role.OWNER))
    dry = await application.server.db.read(lambda tx: insight.dry_run(tx, rules.owner, rules.provider_id, wanted))
    assert [(each.user_id, each.gained[0].role) for each in dry.people] == [(ada["id"], Role.OWNER)]
    rule = await rules.add("others", Role.OWNER)
    assert await rules.roles(ada["id"]) == {("viewer", "data"), ("owner", "")}, "a new rule counts for those in groups"
    identity = application.server.identity
    await providers.remove_rule(identity.db, rules.owner, rules.provider_id, rule)
    assert await rules.roles(ada["id"]) == {("viewer", "data")}
    assert (await directory.delete(f"{BASE}/Groups/{group['id']}")).status_code == 204
    assert await rules.roles(ada["id"]) == set()
    actions = await application.server.db.read(
        lambda tx: tx.all("SELECT action FROM audit WHERE action LIKE 'provisioning.%_group' ORDER BY id")
    )
    assert [each["action"].removeprefix("provisioning.") for each in actions] == [
        "create_group",
        "change_group",
        "change_group",
        "change_group",
        "delete_group",
    ]


@on_one
async def test_who_is_deleted_leaves_all_groups(directory: Directory, rules: Rules) -> None:
    await rules.add("platform", Role.OPERATOR)
    ada = await directory.person("ada@example.com", externalId="1")
    group = await directory.made("Groups", displayName="platform", members=[{"value": ada["id"]}])
    assert (await directory.shown(f"Users/{ada['id']}"))["groups"][0]["display"] == "platform"
    await directory.delete(f"{BASE}/Users/{ada['id']}")
    assert await rules.roles(ada["id"]) == set()
    assert "members" not in await directory.shown(f"Groups/{group['id']}")
    await directory.person("ada@example.com", externalId="1")
    assert await rules.roles(ada["id"]) == set(), "who comes back is in no group before the identity provider says so"


@on_one
async def test_groups_are_found_and_shown_without_their_members(directory: Directory) -> None:
    ada = await directory.person("ada@example.com")
    group = await directory.made("Groups", displayName="Platform", externalId="x", members=[{"value": ada["id"]}])
    for wanted in ('displayName eq "platform"', 'externalId eq "x"', f'members eq "{ada["id"]}"'):
        (found,) = await directory.found("Groups", wanted, excludedAttributes="members")
        assert (found["id"], "members" in found) == (group["id"], False)
    assert await directory.found("Groups", 'displayName eq "plat"') == []
    for members in ([{"value": "usr_nobody"}], [{"value": group["id"]}]):
        answer = await directory.post(f"{BASE}/Groups", json={"displayName": "g", "members": members})
        assert answer.status_code == 400
    put = await directory.put(f"{BASE}/Groups/{group['id']}", json={"displayName": "P2"})
    assert (put.json()["displayName"], "members" in put.json()) == ("P2", False)


async def test_who_was_provisioned_logs_in_as_the_same_user(sign_on: SignOn) -> None:
    application = sign_on.application
    provider = await sign_on.connect()
    directory = await directory_of(application, application.admin.principal)
    account = await application.admin.listed("/api/v1/service-accounts")
    new = NewProvisioner(account[0]["id"], provider.name)
    await application.server.db.write(lambda tx: owners.choose(tx, manager(application), new, ""))
    await providers.add_rule(application.server.db, manager(application), sign_on.id, NewRule("crew", Role.APPROVER))
    ada = await directory.person("somebody@example.com", externalId=ADA)
    await directory.made("Groups", displayName="crew", members=[{"value": ada["id"]}])
    page = await (await sign_on.log_in(ADA)).see("/dashboard/account")
    assert "somebody" in page
    rules = Rules(application, sign_on.id)
    assert ("approver", "") in await rules.roles(ada["id"]), "the groups of both count"
    await directory.patched(f"Users/{ada['id']}", {"op": "Replace", "path": "active", "value": "False"})
    refused = await sign_on.try_login(await logged_in(application), ADA)
    assert refused.status_code != 303, "who is deactivated cannot log in at the provider either"


async def test_who_was_deleted_before_a_first_login_does_not_come_in_as_a_new_user(sign_on: SignOn) -> None:
    """The provider of single sign-on still knew the person, and a first login makes a user."""
    application = sign_on.application
    provider = await sign_on.connect()
    directory = await directory_of(application, application.admin.principal)
    new = NewProvisioner(directory.account_id, provider.name)
    await application.server.db.write(lambda tx: owners.choose(tx, manager(application), new, ""))
    grace = await directory.person("grace@example.com", externalId=GRACE)
    await directory.delete(f"{BASE}/Users/{grace['id']}")
    answer = await sign_on.try_login(visitor(application), GRACE)
    assert (answer.status_code, "is disabled" in answer.text) == (403, True)
    again = await directory.person("grace@example.com", externalId=GRACE)
    await sign_on.log_in(GRACE)
    linked = "SELECT user_id FROM identities WHERE subject = :subject"
    assert await application.scalar(linked, subject=GRACE) == again["id"] == grace["id"]


@on_one
async def test_only_people_are_evaluated_for_whom_something_can_follow(
    application: Application, directory: Directory, rules: Rules
) -> None:
    """Each new rule was evaluated for everybody of the company, also for people in no group: 11 s for two thousand on PostgreSQL."""
    people = [(await directory.person(f"p{number}@example.com"))["id"] for number in range(4)]
    await directory.made("Groups", displayName="lunch", members=[{"value": each} for each in people[:2]])
    await rules.add("platform", Role.OPERATOR)
    db = application.server.db

    async def evaluated() -> int:
        await db.write(lambda tx: store.note_rules_changed(tx, rules.provider_id))
        return await providers.evaluate_stale(db)

    assert await evaluated() == 2
    platform = await directory.made("Groups", displayName="platform", members=[{"value": people[3]}])
    assert await rules.roles(people[3]) == {("operator", "")}
    assert await evaluated() == 3
    renaming = {"op": "replace", "path": "displayName", "value": "former"}
    await directory.patched(f"Groups/{platform['id']}", renaming)
    assert await rules.roles(people[3]) == set()


@on_one
async def test_owners_choose_the_account_and_adopt_and_release_users_on_a_page(
    application: Application, rules: Rules
) -> None:
    await rules.add("platform", Role.OPERATOR)
    browser = await logged_in(application)
    await application.admin.made("/api/v1/service-accounts", {"name": "entra"})
    assert "None. People are invited" in await browser.see("/dashboard/provisioning")
    chosen = await browser.submit("/dashboard/provisioning", account="entra", provider="Corp")
    assert chosen.status_code == 303, chosen.text
    shown = (await application.admin.get("/api/v1/provisioning")).json()
    assert (shown["account"], shown["provider"], shown["address"].endswith(BASE)) == ("entra", "Corp", True)
    await application.person("elena")
    adopted = await browser.submit("/dashboard/provisioning/people", user="elena", user_name="e@x.y", external_id="7")
    assert adopted.status_code == 303, adopted.text
    for user in ("admin", "nobody", "elena"):
        assert "alert" in (await browser.submit("/dashboard/provisioning/people", user=user)).text, user
    (person,) = (await application.admin.get("/api/v1/provisioning/people")).json()["items"]
    assert (person["user"], person["user_name"]) == ("elena", "e@x.y")
    assert "elena" in await browser.see("/dashboard/provisioning")
    assert (await browser.submit(f"/dashboard/provisioning/people/{person['id']}/release")).status_code == 303
    assert (await application.admin.get("/api/v1/provisioning/people")).json()["items"] == []
    assert (await browser.submit("/dashboard/provisioning/remove")).status_code == 303
    assert (await application.admin.get("/api/v1/provisioning")).status_code == 404
    entries = await application.server.db.read(
        lambda tx: tx.all("SELECT action FROM audit WHERE action LIKE 'provisioning.%' ORDER BY id")
    )
    done = ["set", "adopt", "release", "remove"]
    assert [each["action"] for each in entries] == [f"provisioning.{each}" for each in done]
    viewer, token = await application.person("vera", "viewer"), application.admin
    for who in (viewer, token):
        for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/people"), ("DELETE", "/people/elena")):
            body = {"service_account": "entra"} if method == "PUT" else {"user": "elena"}
            answer = await who.request(method, f"/api/v1/provisioning{path}", json=body)
            assert answer.status_code == 403, (method, path, answer.text)
    assert (await viewer.get("/api/v1/provisioning/people")).status_code == 403


@on_one
async def test_a_page_of_groups_has_a_bounded_number_of_members(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred groups of twenty thousand members each would be an answer of half a gigabyte."""
    monkeypatch.setattr(provisioning_store, "MAX_LISTED_MEMBERS", 3)
    people = [{"value": (await directory.person(f"p{number}@example.com"))["id"]} for number in range(4)]
    sizes = (2, 0, 1, 4, 1)
    for number, size in enumerate(sizes):
        await directory.made("Groups", displayName=f"g{number}", members=people[:size])
    seen: list[int] = []
    while len(seen) < len(sizes):
        page = (await directory.get(f"{BASE}/Groups", params={"startIndex": len(seen) + 1})).json()
        assert (page["totalResults"], page["itemsPerPage"]) == (len(sizes), len(page["Resources"]))
        seen += [len(each.get("members", ())) for each in page["Resources"]]
    assert tuple(seen) == sizes
    names = (await directory.get(f"{BASE}/Groups", params={"excludedAttributes": "members"})).json()
    assert names["itemsPerPage"] == len(sizes)
