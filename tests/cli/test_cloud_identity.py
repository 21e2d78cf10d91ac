"""Cloud identities on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.cloud_identities import IdentityPolicies, IdentityView, NewIdentity
from terracrew.api.fleet_jobs import FleetJobView, FleetStep
from tests.cli.answers import THEN, answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

VIEW = answer(
    IdentityView,
    id="cid_1",
    path="pay/aws-prod",
    group="pay",
    name="aws-prod",
    description="",
    kind="aws",
    way="web_identity",
    location="account 123456789012 in eu-central-1",
    role_arn="arn:aws:iam::123456789012:role/crew",
    issuer="https://crew.example",
    subject="organization:acme:cloud-identity:aws-prod:7f",
    audience="sts.amazonaws.com",
    external_id="e",
    runners=[{"id": "rnr_1", "path": "pay/burst"}],
    created_at="2026-11-01T08:00:00Z",
    last_test=None,
)
DOCUMENTS = answer(
    IdentityPolicies,
    documents=[
        {"name": "trust", "title": "Trust policy", "about": "who", "language": "json", "text": '{"a": 1}'},
        {"name": "opentofu", "title": "Role", "about": "both", "language": "hcl", "text": "resource {}\n"},
    ],
)
JOB = answer(
    FleetJobView,
    id="fjb_1",
    number=12,
    type="CONNECTION_TEST",
    status="QUEUED",
    target_name="pay/aws-prod",
    error="",
    steps=[],
)
pytestmark = pytest.mark.feature("W1.identities", "E1.commands")


def step(name: str, status: str, **more: str) -> dict[str, Any]:
    ended = THEN if status in ("done", "failed") else None
    words = f"Words of {name}"
    return answer(
        FleetStep, attempt=1, name=name, words=words, status=status, started_at=THEN, finished_at=ended, **more
    )


def test_an_identity_is_created_with_what_was_given_and_the_next_commands_are_shown(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    bodies: list[Any] = []

    def reply(asked: Any) -> Any:
        bodies.append((asked.method, asked.path, json.loads(asked.body)))
        return asked.answer(200, VIEW)

    server.then(reply, reply, reply)
    role = ("--role-arn", VIEW["role_arn"], "--region", "eu-central-1")
    assert "pay/aws-prod for account 123456789012" in terracrew(
        "cloud-identity", "create", "aws-prod", "--group", "pay", *role
    )
    assert "terracrew cloud-identity policies pay/aws-prod" in terracrew.err
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN")
    terracrew("cloud-identity", "create", "k", "--kind", "kubernetes", "--ca-certificate", str(pem))
    terracrew("cloud-identity", "update", "pay/aws-prod", "--name", "x", "--description", "")
    for _, _, body in bodies[:2]:  # the request has all fields: only what was chosen is compared
        for name in [name for name, value in body.items() if value == getattr(NewIdentity(name=""), name)]:
            del body[name]
    assert bodies == [
        (
            "POST",
            "/api/v1/cloud-identities",
            {"name": "aws-prod", "group": "pay", "role_arn": VIEW["role_arn"], "region": "eu-central-1"},
        ),
        (
            "POST",
            "/api/v1/cloud-identities",
            {"name": "k", "kind": "kubernetes", "ca_certificate": "-----BEGIN"},
        ),
        ("PATCH", "/api/v1/cloud-identities/pay%2Faws-prod", {"name": "x", "description": ""}),
    ]
    terracrew("cloud-identity", "update", "pay/aws-prod")
    assert "changes it: see `terracrew cloud-identity update --help`" in terracrew.err


def test_identities_are_listed_and_shown(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, {"items": [VIEW], "next": None}), lambda asked: asked.answer(200, VIEW))
    assert "pay/burst" in terracrew("cloud-identity", "list")
    shown = terracrew("cloud-identity", "show", "pay/aws-prod")
    assert VIEW["subject"] in shown
    assert "external id" not in shown, "only a role that is assumed as a workload compares it"


def test_a_test_shows_each_check_once_and_ends_with_1_if_one_failed(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    passed = step("sign_in", "done", detail="arn:aws:sts::1:x")
    failed = step("GiveRoles", "failed", detail="iam:PassRole is missing", remedy="Replace the policy of the role.")
    server.then(
        lambda asked: asked.answer(202, JOB),
        lambda asked: asked.answer(200, JOB | {"status": "PROCESSING", "steps": [passed, step("later", "running")]}),
        lambda asked: asked.answer(200, JOB | {"status": "FAILED", "error": "1 failed", "steps": [passed, failed]}),
    )
    ended = terracrew("cloud-identity", "test", "pay/aws-prod")
    assert terracrew.code == 1
    assert terracrew.err.count("✓ Words of sign_in: arn:aws:sts::1:x") == 1
    assert "✗ Words of GiveRoles: iam:PassRole is missing" in terracrew.err
    assert "Replace the policy of the role." in terracrew.err
    assert "Words of later" not in terracrew.err
    assert ended == "CONNECTION_TEST #12 FAILED, 1 of 2 passed, 1 failed\n"


def test_a_test_that_passed_ends_with_0_and_prints_json_for_programs(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    done = JOB | {"status": "SUCCEEDED", "steps": [step("sign_in", "done")]}
    server.then(lambda asked: asked.answer(202, JOB), lambda asked: asked.answer(200, done))
    assert json.loads(terracrew("cloud-identity", "test", "pay/aws-prod", "--json"))["status"] == "SUCCEEDED"
    assert (terracrew.code, terracrew.err) == (0, "")
    server.then(lambda asked: asked.answer(202, JOB))
    assert "#12" in terracrew("cloud-identity", "test", "pay/aws-prod", "--detach")


def test_policies_can_be_piped_into_a_file(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(*[lambda asked: asked.answer(200, DOCUMENTS)] * 3)
    assert terracrew("cloud-identity", "policies", "aws-prod", "--only", "opentofu") == "resource {}\n"
    assert terracrew("cloud-identity", "policies", "aws-prod") == '{"a": 1}\n\n'
    terracrew("cloud-identity", "policies", "aws-prod", "--only", "other")
    assert "this identity has trust, opentofu" in terracrew.err
    assert terracrew.code == 2


@pytest.mark.feature("W5.report")
def test_a_report_says_who_owns_what_and_what_it_costs(terracrew: Terracrew, server: ScriptedServer) -> None:
    resource = {
        "reference": "",
        "runner_id": "",
        "kind": "log group",
        "name": "/terracrew/x",
        "owner": "nobody",
        "runner": "",
        "owner_words": "Its runner was removed on 2 Oct.",
        "job_number": 7,
        "dollars_a_month": 0.2,
        "why": "What its tasks print",
    }
    report = {
        "identity": "aws-prod",
        "looked_at": "2026-11-18T09:00:00Z",
        "resources": [resource],
        "dollars_a_month": 0.2,
        "unpriced": 0,
    }
    asked_for: list[str] = []

    def reply(asked: Any) -> Any:
        asked_for.append(f"{asked.method} {asked.path}")
        return asked.answer(200, report)

    server.then(reply, reply, lambda asked: asked.answer(200, report | {"looked_at": None}))
    shown = terracrew("cloud-identity", "report", "aws-prod")
    assert "(nobody)" in shown
    assert "$0.20" in shown
    assert "Its runner was removed on 2 Oct." in terracrew.err
    terracrew("cloud-identity", "report", "aws-prod", "--last")
    assert [each.split()[0] for each in asked_for] == ["POST", "GET"]
    terracrew("cloud-identity", "report", "aws-prod", "--last")
    assert "nobody has looked yet" in terracrew.err


def test_a_deletion_is_confirmed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, VIEW), lambda asked: asked.answer(204))
    terracrew("cloud-identity", "delete", "pay/aws-prod", stdin="n\n")
    assert "Not deleted" in terracrew.err
    assert terracrew("cloud-identity", "delete", "pay/aws-prod", "--yes") == "deleted pay/aws-prod\n"
