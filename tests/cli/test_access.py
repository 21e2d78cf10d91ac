"""People, roles, service accounts, the audit, and names instead of ids."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from terracrew.api.access import ApiToken, CreatedSecret, Explanation, Me, RoleListed, ServiceAccount, UserListed
from terracrew.api.audit import Entry
from terracrew.api.groups import Organization
from terracrew.api.runners import Registered
from terracrew.api.states import State
from terracrew.cli.main import cli
from tests.cli.answers import THEN, answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

ADA = answer(UserListed, id="usr_1", name="ada", is_invited=True)
CI = answer(ServiceAccount, id="sac_1", name="ci", group="platform")
ROLE = answer(
    RoleListed,
    id="rol_1",
    principal_id="usr_1",
    role="operator",
    path="platform",
    principal_name="ada",
    created_by_name="root",
)


def page(*items: Any) -> dict[str, Any]:
    return {"items": list(items), "next": None}


@pytest.mark.feature("E1.json")
def test_whoami_names_person_roles_and_server(terracrew: Terracrew, server: ScriptedServer) -> None:
    me = answer(Me, kind="user", id="usr_1", name="ada", roles=[ROLE])
    server.on("GET /api/v1/me", me)
    out = terracrew("whoami")
    assert "ada" in out
    assert "operator of platform" in out
    assert f"{server.url}  (TERRACREW_URL)" in out
    assert json.loads(terracrew("whoami", "--json"))["url"] == server.url


def test_logout_forgets_the_token_and_keeps_the_address(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/me", answer(Me, name="ada"))
    terracrew("login", "--token-stdin", stdin="tcu_mine\n")
    assert terracrew("logout") == f"deleted the stored token for {server.url}\n"
    terracrew("logout")
    assert (terracrew.code, "no token is stored" in terracrew.err) == (4, True)


def test_a_user_is_made_listed_and_disabled_by_name(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/users", {"user": ADA, "link": "https://x/login/link/1"}, 201)
    server.on("GET /api/v1/users", page(ADA))
    server.on("PATCH /api/v1/users/ada", ADA | {"is_disabled": True})
    assert terracrew("user", "create", "ada") == "https://x/login/link/1\n"
    assert "role grant ada operator" in terracrew.err
    server.on("POST /api/v1/users", {"user": ADA, "link": None}, 201)
    assert terracrew("user", "create", "ada") == ""
    assert "log in to the dashboard and reset ada there" in terracrew.err
    assert terracrew("user", "list").splitlines()[1].split()[:2] == ["ada", "invited"]
    assert max(map(len, terracrew.out.splitlines())) <= 80
    assert terracrew("user", "disable", "ada", "--yes") == "ada is disabled\n"
    assert server.asked[-1].json() == {"is_disabled": True}
    terracrew("user", "update", "ada", "--name", "grace", "--no-admin")
    assert server.asked[-1].json() == {"name": "grace", "is_system_admin": False}
    terracrew("user", "update", "ada")
    assert terracrew.code == 2


@pytest.mark.feature("E1.commands", "E1.json")
def test_a_user_is_shown_reset_and_deleted_after_a_question(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/users/ada", ADA | {"roles": [ROLE], "sessions": 2, "tokens": 1})
    server.on("POST /api/v1/users/ada/reset", {"user": ADA, "link": "https://x/login/link/2"})
    server.on("DELETE /api/v1/users/ada", None, 204)
    assert "operator of platform" in terracrew("user", "show", "ada")
    for command in ("reset", "delete"):
        asked = len(server.asked)
        terracrew("user", command, "ada", stdin="n\n")
        assert (terracrew.code, len(server.asked)) == (1, asked)
    assert terracrew("user", "reset", "ada", "--yes") == "https://x/login/link/2\n"
    assert terracrew("user", "delete", "ada", "--yes") == "deleted user ada\n"
    assert json.loads(terracrew("user", "delete", "ada", "--yes", "--json")) == {"deleted": "ada"}


def test_a_role_is_granted_listed_and_revoked_without_its_id(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/roles", ROLE, 201)
    server.on("GET /api/v1/roles", page(ROLE))
    server.on("GET /api/v1/roles?principal=ada", page(ROLE))
    server.on("GET /api/v1/roles?path=platform&inherited=true", page(ROLE | {"expires_at": THEN}))
    server.on("DELETE /api/v1/roles/rol_1", None, 204)
    assert terracrew("role", "grant", "ada", "operator", "--group", "platform") == "ada is operator of platform\n"
    assert server.asked[-1].json() == {"principal": "ada", "role": "operator", "path": "platform", "kind": "group"} | {
        "expires_in_days": None
    }
    assert terracrew("role", "list").splitlines()[1].split()[:4] == ["ada", "operator", "platform", "root"]
    assert terracrew("role", "list", "--group", "platform").splitlines()[1].split()[-1] == "ago"
    assert max(map(len, terracrew.out.splitlines())) <= 80
    terracrew("role", "grant", "ada", "operator", "--expires-in-days", "30")
    assert server.asked[-1].json()["expires_in_days"] == 30
    terracrew("role", "revoke", "ada", "operator", "--group", "platform")
    assert server.asked[-1] == "DELETE /api/v1/roles/rol_1"
    terracrew("role", "revoke", "ada", "owner")
    assert terracrew.code == 4


@pytest.mark.feature("E1.commands", "E1.json")
def test_an_explanation_is_printed_as_a_way_from_the_organization_to_the_place(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    steps = [
        {"kind": "organization", "path": "", "role": None, "is_deciding": False},
        {"kind": "group", "path": "platform", "role": ROLE, "is_deciding": True},
        {"kind": "module", "path": "platform/vpc", "role": None, "is_deciding": False},
    ]
    found = answer(Explanation, is_allowed=True, sentence="ada may run jobs.", steps=steps, limits=["Not on Fridays."])
    server.on("GET /api/v1/access/explain?principal=ada&verb=job.run&path=platform%2Fvpc", found)
    lines = terracrew("role", "explain", "ada", "job.run", "platform/vpc").splitlines()
    assert lines[0] == "Yes: ada may run jobs."
    assert lines[2].startswith("    platform: operator, granted by root")
    assert lines[2].endswith("<- decides")
    assert lines[-1] == "Limit: Not on Fridays."
    refusal = {
        "is_allowed": False,
        "sentence": "No role.",
        "sufficient_roles": ["owner"],
        "can_be_granted_by": ["olga"],
    }
    server.on("GET /api/v1/access/explain?principal=me&verb=audit.read&path=", found | refusal)
    lines = terracrew("role", "explain", "me", "audit.read").splitlines()
    assert lines[-1] == "They can be granted by: olga, administrators of the server"
    assert max(map(len, lines)) <= 80
    terracrew("role", "explain", "ada", "fly")
    assert terracrew.code == 2


def test_a_service_account_is_named_by_its_name(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/service-accounts", page(CI, CI | {"id": "sac_2", "group": "data"}))
    server.on("GET /api/v1/service-accounts?group=platform", page(CI))
    secret = answer(CreatedSecret, id="sec_1", client_id="org_1:sac_1", client_secret="tcs_once")
    server.on("POST /api/v1/service-accounts/sac_1/secrets", secret, 201)
    assert "client_secret=tcs_once" in terracrew("service-account", "add-secret", "platform/ci")
    server.on("POST /api/v1/service-accounts", CI, 201)
    terracrew("service-account", "create", "ci", "--group", "platform")
    assert "role grant platform/ci operator --group platform\n" in terracrew.err, "not for the whole organization"
    terracrew("service-account", "delete", "ci", "--yes")
    assert (terracrew.code, "sac_1, sac_2" in terracrew.err) == (5, True)


@pytest.mark.feature("E1.commands", "E1.json")
def test_a_service_account_is_shown_with_its_runners_and_disabled(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/service-accounts", page(CI))
    server.on("GET /api/v1/service-accounts?group=platform", page(CI))
    shown = CI | {"roles": [ROLE], "runners": [{"id": "rnr_1", "path": "platform/crew"}]}
    server.on("GET /api/v1/service-accounts/sac_1", shown)
    server.on("PATCH /api/v1/service-accounts/sac_1", CI | {"is_disabled": True})
    assert terracrew("service-account", "list").splitlines()[1].split()[2] == "enabled"
    assert "platform/crew" in terracrew("service-account", "show", "platform/ci")
    assert terracrew("service-account", "update", "ci", "--disable") == "service account ci is disabled\n"
    assert server.asked[-1].json() == {"is_disabled": True}
    assert json.loads(terracrew("service-account", "update", "ci", "--name", "cd", "--json"))["id"] == "sac_1"
    terracrew("service-account", "update", "ci")
    assert terracrew.code == 2


def test_a_token_is_revoked_by_its_name_and_a_state_shown_by_its_version(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """`token revoke` wanted an id, and so did `state show 4`."""
    server.on("GET /api/v1/tokens", page(answer(ApiToken, id="tok_1", name="laptop")))
    server.on("DELETE /api/v1/tokens/tok_1", None, 204)
    assert terracrew("token", "revoke", "laptop") == "revoked laptop\n"
    server.on("GET /api/v1/modules/net/states", page(*(answer(State, id=f"sta_{n}", version=n) for n in (4, 3))))
    server.on("GET /api/v1/states/sta_4", {"version": 4})
    terracrew("state", "show", "4", "--module", "net")
    assert server.asked[-1] == "GET /api/v1/states/sta_4"
    terracrew("module", "state", "net", "--version", "4")
    assert server.asked[-1] == "GET /api/v1/states/sta_4"
    terracrew("state", "show", "4")
    assert "with --module PATH" in terracrew.err


@pytest.mark.feature("E1.commands", "E1.json")
def test_the_audit_is_listed(terracrew: Terracrew, server: ScriptedServer) -> None:
    entry = answer(
        Entry,
        actor_name="ada",
        action="module.create",
        target_kind="module",
        target_id="mod_1",
        details={"path": "a/b"},
        organization_id="org_2",
        address="192.0.2.1",
    )
    organizations = [answer(Organization, id="org_1", name="one"), answer(Organization, id="org_2", name="two")]
    me = answer(Me, organizations=organizations)
    server.on("GET /api/v1/me", me)
    server.on("GET /api/v1/audit", page(entry))
    heading, row = terracrew("audit", "list").splitlines()
    assert heading.split() == ["WHEN", "WHO", "WHAT"]
    assert row.split()[2:] == ["ada", "created", "the", "module", "a/b"]
    heading, row = terracrew("audit", "list", "--wide").splitlines()
    assert heading.split() == ["WHEN", "WHO", "WHAT", "TIME", "ADDRESS", "ACTION", "ID"]
    assert row.split()[-4:] == [THEN, "192.0.2.1", "module.create", "mod_1"]
    # An administrator who has chosen no organization sees the changes of all of them.
    server.on("GET /api/v1/me", me | {"is_system_admin": True})
    server.on("GET /api/v1/organizations", page(*organizations))
    server.on("GET /api/v1/audit", page(entry, entry | {"organization_id": None}))
    lines = terracrew("audit", "list").splitlines()
    assert [line.split()[0] for line in lines] == ["ORGANIZATION", "two", "(server)"]
    assert terracrew("--organization", "two", "audit", "list").split()[0] == "WHEN"
    filters = ("--actor", "ada", "--action", "module", "--path", "a", "--since", "2026-11-16", "--search", "x y")
    query = "actor=ada&action=module&path=a&since=2026-11-16T00%3A00%3A00%2B00%3A00&text=x+y"
    server.on(f"GET /api/v1/audit?{query}", page(entry | {"path": "a/b"}))
    assert json.loads(terracrew("audit", "list", *filters, "--json"))[0]["path"] == "a/b"
    for since in ("yesterday", "2026-13-01"):
        terracrew("audit", "list", "--since", since)
        assert (terracrew.code, "is not a moment" in terracrew.err) == (2, True)


@pytest.mark.feature("E1.commands")
def test_the_audit_is_exported_to_a_file_byte_by_byte(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    lines = b'{"action": "a"}\n' * 1000
    server.then(lambda asked: asked.answer(200, lines))
    terracrew("audit", "export", "--until", "2026-11-16T08:30+01:00", "-o", str(tmp_path / "out"))
    assert server.asked[-1] == "GET /api/v1/audit/export?format=jsonl&until=2026-11-16T07%3A30%3A00%2B00%3A00"
    assert (tmp_path / "out").read_bytes() == lines


def test_a_password_is_read_from_standard_input_and_never_from_the_line(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("POST /api/v1/me/password", {"sessions_ended": 2, "tokens_revoked": 1})
    assert terracrew("user", "password", stdin="old one\nnew one\n") == "changed your password\n"
    assert server.asked[-1].json() == {"new_password": "new one", "current_password": "old one"}
    assert "ended 2 sessions and 1 API tokens" in terracrew.err
    assert terracrew("user", "password", stdin="\nnew one\n") == "changed your password\n"
    assert server.asked[-1].json() == {"new_password": "new one", "current_password": None}, "a first password"
    assert terracrew("user", "password", "secret") == ""
    assert terracrew.code == 2


@pytest.mark.feature("E1.commands", "E1.json")
def test_organizations_are_managed_and_a_command_names_the_one_that_it_is_about(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = answer(Organization, id="org_1", name="acme")
    server.on("GET /api/v1/organizations", page(acme, acme | {"id": "org_2", "name": "other"}))
    server.on("GET /api/v1/organizations/acme", acme | {"contents": {"users": 2, "service_accounts": 0}})
    server.on("GET /api/v1/me", answer(Me, organization_id="org_2"))
    server.on("POST /api/v1/organizations", acme, 201)
    server.on("PATCH /api/v1/organizations/acme", acme | {"name": "corp"})
    server.on("DELETE /api/v1/organizations/acme", None, 204)
    lines = terracrew("--organization", "other", "organization", "list").splitlines()
    assert server.asked[-1].headers["Terracrew-Organization"] == "other"
    assert lines[2].startswith("other *")
    assert max(map(len, lines)) <= 80
    terracrew("organization", "create", "acme", "--owner", "ada")
    assert server.asked[-1].json() == {"name": "acme", "owner": "ada"}
    assert "Terracrew-Organization" not in server.asked[-1].headers
    assert "service accounts  0" in terracrew("organization", "show", "acme")
    assert terracrew("organization", "update", "acme", "--name", "corp") == "renamed organization acme to corp\n"
    terracrew("organization", "delete", "acme", stdin="n\n")
    assert terracrew.code == 1
    monkeypatch.setenv("TERRACREW_ORGANIZATION", "from-environment")
    assert terracrew("organization", "delete", "acme", "--yes") == "deleted organization acme\n"
    assert server.asked[-1].headers["Terracrew-Organization"] == "from-environment"
    monkeypatch.delenv("TERRACREW_ORGANIZATION")
    terracrew("config", "set", "url", server.url)
    terracrew("config", "set", "organization", "from-profile")
    terracrew("organization", "show", "acme")
    assert server.asked[-1].headers["Terracrew-Organization"] == "from-profile"
    assert "from-profile  (profile default)" in terracrew("config", "show")
    terracrew("--organization", "a\nb", "organization", "list")
    assert (terracrew.code, "cannot be the name of an organization" in terracrew.err) == (2, True)


def test_any_request_can_be_sent(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/me", {"name": "ada"})
    server.on("POST /api/v1/groups", {"path": "a"}, 201)
    assert json.loads(terracrew("api", "get", "/api/v1/me"))["name"] == "ada"
    terracrew("api", "post", "groups", "-d", '{"path": "a"}')
    assert server.asked[-1].json() == {"path": "a"}
    terracrew("api", "post", "groups", "-d", "{")
    assert terracrew.code == 2


@pytest.mark.feature("E1.completion")
@pytest.mark.parametrize(
    ("line", "place", "items", "names"),
    [
        (
            ["module", "show"],
            "modules?limit=200&recursive=true",
            [{"path": "net", "engine": "tofu"}, {"path": "d", "engine": ""}],
            ["net"],
        ),
        (["runner", "drain"], "runners?limit=200", [{"path": "north", "status": "ONLINE"}], ["north"]),
        (
            ["group", "delete"],
            "groups?limit=200",
            [{"path": "", "description": ""}, {"path": "nets", "description": "x"}],
            ["nets"],
        ),
        (["token", "revoke"], "tokens?limit=200", [{"name": "n1"}], ["n1"]),
        (
            ["service-account", "assign"],
            "service-accounts?limit=200",
            [{"group": "net", "name": "ci"}, {"group": "", "name": "n2"}, {"group": "a", "name": "n3"}],
            ["net/ci", "n2"],
        ),
        (["runner", "reregister"], "runners?limit=200", [{"path": "north", "status": "ONLINE"}], ["north"]),
    ],
)
def test_names_are_completed_by_the_server(
    server: ScriptedServer, line: list[str], place: str, items: list[dict[str, Any]], names: list[str]
) -> None:
    server.on(f"GET /api/v1/{place}", page(*items))
    assert completed([*line], "n") == names


@pytest.mark.feature("E1.completion")
def test_a_completion_without_a_server_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERRACREW_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TERRACREW_TOKEN", "tcu_x")
    assert completed(["module", "show"], "") == []
    assert capsys.readouterr() == ("", "")


def completed(line: list[str], typed: str) -> list[str]:
    found = ShellComplete(cli, {}, "terracrew", "_TERRACREW_COMPLETE").get_completions(line, typed)
    assert isinstance(cli, click.Group)
    return [each.value for each in found]


def test_a_loopback_address_for_a_runner_is_remarked(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`runner register` printed 127.0.0.1 for a runner on another machine, without a word."""
    environment = {"TERRACREW_API_URL": "http://127.0.0.1:7400", "TERRACREW_RUNNER_ID": "rnr_1"}
    made = answer(Registered, path="edge", environment=environment, command="terracrew runner start")
    server.on("POST /api/v1/runners/register", made, 201)
    terracrew("runner", "register", "edge")
    assert "works only on the server's machine" in terracrew.err
    server.on("POST /api/v1/runners/register", made | {"environment": {"TERRACREW_API_URL": "https://tc.example"}}, 201)
    terracrew("runner", "register", "edge")
    assert "machine only" not in terracrew.err
