"""`terracrew import hcp` makes modules of workspaces, and changes nothing at the source."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.hcp_site import TOKEN, HcpSite, hosts, state
from tests.e2e.system import System
from tests.machine.forks import process

pytestmark = [pytest.mark.timeout(180), pytest.mark.feature("P6.hcp")]


@pytest.fixture
def site() -> Iterator[HcpSite]:
    with hosts() as found:
        yield found


def run(system: System, site: HcpSite, *words: str, code: int = 0) -> Any:
    """Import from the site, and return the report."""
    ended, out, err = imported(system, site, "--json", *words)
    assert ended == code, out + err
    return json.loads(out)


def imported(system: System, site: HcpSite, *words: str) -> tuple[int, str, str]:
    command = ["--url", system.url, "--token-file", str(system.data / "admin.token")]
    command += ["import", "hcp", "--organization", "acme", "--url", site.url, *words]
    name = f"TF_TOKEN_{site.url.removeprefix('http://').replace('.', '_').replace(':', '_')}"
    ended, out, err = process.run(command, system.env | {name: TOKEN})
    assert TOKEN not in out + err
    assert "secret-of-the-address" not in out + err
    return ended, out, err


def inputs(system: System, place: str) -> dict[str, Any]:
    found = system.api.get("/inputs", place=place, inherited=False)["items"]
    return {each["name"]: (each["target"], each["kind"], each["value"]) for each in found}


REPOSITORY = {
    "identifier": "acme/shop",
    "branch": "main",
    "repository-http-url": "https://github.com/acme/shop",
    "ingress-submodules": True,
}


def test_an_organization_moves_in_once(system: System, site: HcpSite) -> None:
    system.start_server(runner=False)
    site.lists(
        "organizations/acme/projects",
        [
            {"id": "prj-default", "type": "projects", "attributes": {"name": "Default Project"}},
            {"id": "prj-1", "type": "projects", "attributes": {"name": "Web Shop", "description": "What sells"}},
        ],
    )
    shop = site.workspace(
        "Shop_Prod",
        content=state("shop", 7),
        project="prj-1",
        working_directory="/live/prod/",
        vcs_repo=REPOSITORY,
        auto_apply=True,
        file_triggers_enabled=True,
        trigger_prefixes=["modules"],
        tag_names=["app"],
        description="The shop",
        variables=[
            {"key": "region", "value": "eu"},
            {"key": "sizes", "value": '{ small = 1, "large" = [2, 3] }', "hcl": True},
            {"key": "network", "value": 'cidrsubnet("10.0.0.0/8", 8, 1)', "hcl": True},
            {"key": "password", "sensitive": True},
            {"key": "AWS_REGION", "value": "eu-1", "category": "env"},
            {"key": "TFC_AWS_PROVIDER_AUTH", "value": "true", "category": "env"},
            {"key": "TF_HTTP_ADDRESS", "value": "https://elsewhere", "category": "env"},
        ],
    )
    site.workspace("network", execution_mode="local", terraform_version="~> 1.5", speculative_enabled=False)
    site.lists(f"workspaces/{shop}/tag-bindings", [{"id": "1", "attributes": {"key": "team", "value": "sales"}}])
    sets: list[dict[str, Any]] = []
    everywhere = [{"key": "owner", "value": "acme"}, {"key": "region", "value": "us"}]
    site.variable_set("Everywhere", everywhere, sets, **{"global": True})
    site.variable_set("Forced", [{"key": "region", "value": "moon"}], sets, priority=True, workspaces=[shop])
    site.variable_set("Shops", [{"key": "currency", "value": "EUR"}], sets, projects=["prj-1"])
    site.lists("organizations/acme/teams", [{"id": "team-1", "attributes": {"name": "sellers"}}])
    site.lists(
        "team-workspaces",
        [{"id": "t", "attributes": {"access": "write"}, "relationships": {"team": {"data": {"id": "team-1"}}}}],
        **{"filter[workspace][id]": shop},
    )
    planned = run(system, site, "--plan")
    assert [(each["path"], each["action"]) for each in planned["modules"]] == [
        ("acme/web-shop/shop-prod", "create"),
        ("acme/network", "create"),
    ]
    assert system.api.get("/modules")["items"] == []
    made = run(system, site, "--yes")
    assert [each["failures"] for each in made["outcomes"]] == [[]] * 4
    module = system.api.get("/modules/acme%2Fweb-shop%2Fshop-prod")
    source = {"url": "https://github.com/acme/shop", "branch": "main", "subdirectory": "live/prod", "submodules": True}
    assert source.items() <= module["source"].items()
    assert (module["engine"], module["engine_version"], module["command_line"]) == ("terraform", "1.5.7", "runners")
    assert module["watch"] == ["/modules/**", "/live/prod/**"]
    assert {"app", "team=sales"} < set(module["labels"])
    assert module["needs_approval"], "a value has to be set first"
    assert (module["state_version"], module["lock"]) == (1, None)
    assert system.state("acme/web-shop/shop-prod")["serial"] == 7
    assert inputs(system, "acme/web-shop/shop-prod") == {
        "AWS_REGION": ("environment", "literal", "eu-1"),
        "region": ("variable", "literal", "moon"),
        "sizes": ("variable", "literal", {"small": 1, "large": [2, 3]}),
        "~imported.auto.tfvars": ("file", "literal", None),
    }
    assert inputs(system, "acme") == {
        "owner": ("variable", "literal", "acme"),
        "region": ("variable", "literal", "us"),
    }
    assert inputs(system, "acme/web-shop") == {"currency": ("variable", "literal", "EUR")}
    other = system.api.get("/modules/acme%2Fnetwork")
    assert (other["command_line"], other["pull_request_plans"], other["state_version"]) == ("terminal", False, 0)
    assert made["by_hand"] == ["terracrew input set acme/web-shop/shop-prod password --secret"]
    remarks = " ".join(made["modules"][0]["remarks"])
    for words in ("TFC_AWS_PROVIDER_AUTH", "TF_HTTP_ADDRESS is set by Terracrew", "sellers (write)"):
        assert words in remarks
    secret = {"place": "acme/web-shop/shop-prod", "name": "password", "secret": "correct-horse"}
    system.api.post("/inputs", secret)
    again = run(system, site, "--yes")
    assert not again["is_executed"]
    assert {each["action"] for each in (*again["modules"], *again["groups"])} == {"exists"}
    assert again["by_hand"] == [], "it is set now"
    assert site.changes == [], "nothing was changed at the source"


@pytest.mark.feature("P6.token")
def test_the_token_is_sent_to_the_host_that_was_named_and_to_no_other(system: System, site: HcpSite) -> None:
    system.start_server(runner=False)
    site.workspace("app", content=state("app"))
    run(system, site, "--yes")
    assert {each.headers.get("Authorization") for each in site.server.asked} == {f"Bearer {TOKEN}"}
    assert [(each.path, each.headers.get("Authorization")) for each in site.archive.asked] == [
        ("/object/ws-0000?signature=secret-of-the-address", None)
    ]


@pytest.mark.feature("P6.damage")
def test_a_damaged_state_leaves_its_module_locked_until_it_arrives(system: System, site: HcpSite) -> None:
    """A module without its state would let an apply create everything again."""
    system.start_server(runner=False)
    damaged = site.workspace("damaged", content=state("one"), md5="0" * 32)
    other = site.workspace("newer", content=state("two"))
    site.workspace("whole", content=state("three"))
    site.archive.on(f"GET /object/{other}?signature=secret-of-the-address", json.loads(state("two", 5)))
    found = run(system, site, "--yes", code=1)
    failures = {each["path"]: " ".join(each["failures"]) for each in found["outcomes"]}
    assert "its MD5 is not the one that was announced" in failures["acme/damaged"]
    assert "its MD5 is not the one that was announced" in failures["acme/newer"]
    assert failures["acme/whole"] == ""
    for name in ("damaged", "newer"):
        module = system.api.get(f"/modules/acme%2F{name}")
        assert (module["state_version"], module["lock"]["person"]["reason"]) == (
            0,
            f"the import of {name} is not complete",
        )
    site.state(damaged, state("one"))
    site.state(other, state("two", 5))
    found = run(system, site, "--yes")
    assert [each["action"] for each in found["modules"]] == ["complete", "complete", "exists"]
    for name, serial in (("damaged", 1), ("newer", 5)):
        assert system.api.get(f"/modules/acme%2F{name}")["lock"] is None
        assert system.state(f"acme/{name}")["serial"] == serial
    site.state(other, state("foreign", 9))
    found = run(system, site, "--yes", code=1)
    assert "state of another lineage" in " ".join(found["outcomes"][0]["failures"])
    assert system.state("acme/newer")["lineage"] == "two"


def test_workspaces_are_locked_at_the_source_only_if_that_is_wanted(system: System, site: HcpSite) -> None:
    system.start_server(runner=False)
    first, second = site.workspace("one", content=state("one")), site.workspace("two")
    site.server.on(f"POST /api/v2/workspaces/{first}/actions/lock", {"data": {"id": first, "type": "workspaces"}})
    site.server.on(f"POST /api/v2/workspaces/{second}/actions/lock", {"errors": [{"status": "409"}]}, 409)
    found = run(system, site, "--yes", "--lock-source")
    assert [each.json() for each in site.changes] == [
        {"reason": "moved to Terracrew as acme/one"},
        {"reason": "moved to Terracrew as acme/two"},
    ]
    words = [each for outcome in found["outcomes"] for each in outcome["made"]]
    assert "locked one at the source" in words
    assert "two was locked at the source already" in words


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, 3, "does not accept the token from TF_TOKEN_127_0_0_1"),
        (404, 4, "has no organization `acme`, or the token may not see it"),
        (403, 3, "may not read"),
    ],
)
def test_what_the_host_refuses_is_said_in_words(
    system: System, site: HcpSite, status: int, code: int, words: str
) -> None:
    system.start_server(runner=False)
    site.workspace("app")
    listed = next(route for route in site.server.routes if "acme/workspaces" in route)
    site.server.on(listed, {"errors": [{"status": str(status), "title": "refused"}]}, status)
    ended, out, err = imported(system, site, "--yes")
    assert (ended, out) == (code, "")
    assert words in err
