"""Trust policies of service accounts on the command line."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

ACCOUNT = "sac_" + "1" * 32
PATH = f"/api/v1/service-accounts/{ACCOUNT}/trust-policies"
POLICY: dict[str, Any] = {
    "id": "trp_1",
    "organization_id": "org_1",
    "service_account_id": ACCOUNT,
    "issuer": "https://gitlab.example.com",
    "audience": "https://crew.example.com",
    "claims": {"sub": "project_path:acme/*", "ref": "main"},
    "is_reusable": False,
    "created_by": "usr_1",
    "created_at": "2024-01-02T03:04:05Z",
    "expires_at": None,
    "last_used_at": None,
}


@pytest.mark.feature("A3.policies", "E1.json")
def test_trust_is_added_listed_and_removed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {PATH}", POLICY, 201)
    server.on(f"GET {PATH}", {"items": [POLICY], "next": None})
    server.on(f"DELETE {PATH}/trp_1", None, 204)
    trust = ("service-account", "trust")
    claims = ("--claim", "sub=project_path:acme/*", "--claim", "ref=main")
    out = terracrew(
        *trust, "add", ACCOUNT, "--issuer", "https://gitlab.example.com", *claims, "--expires-in-days", "30"
    )
    assert "trusts https://gitlab.example.com (trp_1)" in out
    assert f"client_id=org_1:{ACCOUNT}" in terracrew.err
    listed = terracrew(*trust, "list", ACCOUNT)
    assert "ref=main, sub=project_path:acme/*" in listed
    assert "once" in listed
    assert json.loads(terracrew(*trust, "list", ACCOUNT, "--json")) == [POLICY]
    assert terracrew(*trust, "remove", ACCOUNT, "trp_1") == "removed trp_1\n"


@pytest.mark.feature("A3.policies")
def test_a_policy_with_an_audience_alone_says_whom_it_lets_in(terracrew: Terracrew, server: ScriptedServer) -> None:
    made: dict[str, Any] = POLICY | {"audience": "crew", "claims": dict[str, str]()}
    server.on(f"POST {PATH}", made, 201)
    server.on(f"GET {PATH}", {"items": [made], "next": None})
    trust = ("service-account", "trust")
    terracrew(*trust, "add", ACCOUNT, "--issuer", "https://gitlab.example.com", "--claim", "aud=crew")
    assert "every token of https://gitlab.example.com for the audience crew now acts as" in terracrew.err
    assert "(audience only)" in terracrew(*trust, "list", ACCOUNT)


@pytest.mark.feature("A3.policies")
@pytest.mark.parametrize("claims", [["sub"], ["=x"], ["sub=a", "sub=b"]])
def test_a_claim_is_a_name_and_a_value(terracrew: Terracrew, server: ScriptedServer, claims: list[str]) -> None:
    options = [part for claim in claims for part in ("--claim", claim)]
    terracrew("service-account", "trust", "add", ACCOUNT, "--issuer", "https://gitlab.example.com", *options)
    assert terracrew.code == 2
    assert server.asked == []
