"""Tokens and secrets of runners that end, are renewed or are revoked while things run; on one server and on two."""

import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3

from terracrew.protocol.messages import AttemptRef
from tests.e2e import modules
from tests.e2e.constants import constants, environment
from tests.e2e.gate import Gate
from tests.e2e.pair import servers
from tests.e2e.simulated_runner import batch, claim, executor_hello, hub, runner_hello, runner_token
from tests.e2e.system import System, eventually
from tests.thoroughness import thorough

__all__ = ["servers"]
pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
SECONDS = 3
SHORT = constants(
    server__identity__oidc__tokens__LIFETIME_SECONDS=SECONDS,
    server__hub__notify__SWEEP_SECONDS=0.5,
    server__hub__notify__TOKEN_LEEWAY_SECONDS=0.5,
)
"""A server whose tokens live for moments, and which looks for those that have ended all the time."""


def instance(system: System, runner: str = "crew") -> dict[str, Any]:
    return next(iter(system.api.get(f"/runners/{runner}")["instances"]), {"is_connected": False})


def connected(system: System) -> dict[str, Any]:
    return eventually(lambda: found if (found := instance(system))["is_connected"] else None, what="the connection")


def epoch(system: System) -> int:
    with sqlite3.connect(f"file:{system.data / 'terracrew.db'}?mode=ro", uri=True) as database:
        return database.execute("SELECT epoch FROM instances").fetchone()[0]


@pytest.mark.feature("A6.renewal")
@thorough
def test_a_runner_renews_its_token_again_and_again_on_the_same_connection(system: System) -> None:
    with environment(system, SHORT):
        system.start_server(runner=False)
    loud = {"TERRACREW_LOGGING__LOG_LEVEL": '{"terracrew.runner.connection.hub_connection": "Debug"}'}
    runner = system.start_runner(system.register_runner() | loud)
    first = connected(system)["connected_at"]
    before = epoch(system)
    eventually(lambda: runner.log.read_text().count("the token is renewed") >= 4, what="four renewals")
    assert (connected(system)["connected_at"], epoch(system)) == (first, before)
    assert runner.log.read_text().count("connected to http") == 1
    system.module("app", modules.quick())
    assert system.wait(system.run("app"))["status"] == "SUCCEEDED"


@pytest.mark.feature("A6.renewal")
def test_a_connection_whose_token_is_not_renewed_ends_with_it(system: System) -> None:
    """Without this, the renewals above would prove nothing."""
    with environment(system, SHORT):
        system.start_server(runner=False)
    credentials = system.register_runner()
    with hub(system, runner_token(system, credentials)) as runner:
        assert runner.ask(runner_hello(credentials))["type"] == "welcome"
        assert runner.wait_for("refused", timeout=SECONDS + 20)["code"] == "unauthenticated"


# ---- revocation, on another server than the one that the runner is connected to


def revoke_secret(api: Any, account: str, secret: str) -> None:
    api.delete(f"/service-accounts/{account}/secrets/{secret}")


def delete_account(api: Any, account: str, secret: str) -> None:
    api.delete(f"/service-accounts/{account}")


def replace_token(api: Any, account: str, secret: str) -> None:
    api.post("/runners/register", {"name": "crew", "group": "", "replace": True})


@pytest.mark.postgres
@pytest.mark.feature("A6.revocation")
@pytest.mark.parametrize("end", [revoke_secret, delete_account, replace_token])
def test_a_credential_that_ends_on_one_server_ends_its_connections_on_the_other_and_what_runs_is_delivered(
    servers: tuple[System, System], gate: Gate, end: Callable[..., None]
) -> None:
    one, other = servers
    credentials = one.register_runner()
    account = one.api.post("/service-accounts", {"name": "crew", "group": ""})["id"]
    secret = one.api.post(f"/service-accounts/{account}/secrets", {})
    if end is not replace_token:
        one.api.patch("/runners/crew", {"service_account": account})
        own = {"CLIENT_ID": account, "CLIENT_SECRET": secret["client_secret"]}
        credentials = {name: value for name, value in credentials.items() if "CREDENTIALS" not in name}
        credentials |= {f"TERRACREW_RUNNER__CREDENTIALS__{name}": value for name, value in own.items()}
    runner = other.start_runner(credentials)
    one.module("app", modules.gated_plan(gate.address))
    job = one.run("app")
    assert gate.reached.wait(60)
    connected(one)
    end(one.api, account, secret["id"])
    started = time.monotonic()
    eventually(lambda: not instance(one)["is_connected"], within=5, what="the end of the connection")
    assert time.monotonic() - started < 5
    gate.open()
    ended = one.wait(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), other.log(job)
    assert "revoked" in runner.log.read_text()
    eventually(
        lambda: "this credential is not valid" in runner.log.read_text(), what="the refusal of the dead credential"
    )
    assert not instance(one)["is_connected"]


@pytest.mark.feature("A6.revocation", "T3.reload")
def test_a_secret_that_is_rotated_while_a_job_runs_costs_the_job_nothing(
    system: System, gate: Gate, tmp_path: Path
) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    account = system.api.post("/service-accounts", {"name": "crew", "group": ""})["id"]
    system.api.patch("/runners/crew", {"service_account": account})
    old, new = (system.api.post(f"/service-accounts/{account}/secrets", {}) for _ in range(2))
    file = tmp_path / "secret"
    file.write_text(old["client_secret"])
    others = {name: value for name, value in credentials.items() if "CREDENTIALS" not in name}
    external = "TERRACREW_EXTERNAL__SETTINGS__RUNNER__CREDENTIALS__CLIENT_SECRET"
    runner = system.start_runner(
        others | {"TERRACREW_RUNNER__CREDENTIALS__CLIENT_ID": account, external: f"file:{file}"}
    )
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    file.write_text(new["client_secret"])
    runner.kill(signal.SIGHUP)
    eventually(lambda: "the settings were read again" in runner.log.read_text(), what="the new settings")
    system.api.delete(f"/service-accounts/{account}/secrets/{old['id']}")
    eventually(lambda: runner.log.read_text().count(": connected to http") == 2, what="the second connection")
    gate.open()
    ended = system.wait(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), system.log(job)
    assert connected(system)
    assert old["client_secret"] not in runner.log.read_text()
    assert new["client_secret"] not in runner.log.read_text()


# ---- half an hour without a server


def long_ago(system: System, seconds: float) -> None:
    """Let what the database remembers of connections and attempts be that much older, and every signed token worthless."""
    with sqlite3.connect(system.data / "terracrew.db") as database:
        database.execute("DELETE FROM signing_keys")
        for table, columns in (
            ("attempts", ("claimed_at", "started_at", "begun_at", "heard_at")),
            ("instances", ("connected_at", "heard_at")),
            ("jobs", ("created_at", "queued_at", "claimed_at", "started_at")),
        ):
            for column in columns:
                database.execute(f"UPDATE {table} SET {column} = {column} - {seconds}")


@pytest.mark.feature("O6.restart")
@pytest.mark.parametrize("with_runner", [False, pytest.param(True, marks=thorough)])
def test_an_attempt_delivers_after_half_an_hour_without_a_server_and_without_its_runner(
    system: System, tmp_path: Path, with_runner: bool
) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"
    with environment(system, SHORT):
        server = system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    system.module("app", modules.gated_apply(str(witness), str(gate)))
    job = system.run("app", "APPLY")
    eventually(lambda: witness.exists(), what="the apply")
    executor = system.executor(job)
    server.kill()
    if not with_runner:
        runner.kill()
    gate.touch()
    eventually(lambda: witness.read_text().split() == ["begin", "end"], what="the end of the apply")
    long_ago(system, 1800)
    assert system.executors() == {f"{job}.1": executor}, "it waits for as long as it takes"
    with environment(system, SHORT):
        system.start_server(runner=False)
    ended = system.wait(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), system.log(job)
    assert "Apply complete" in system.log(job)
    assert {each["name"] for each in system.state("app")["resources"]} == {"first", "slow"}
    if with_runner:
        connected(system)
        system.module("next", modules.quick())
        assert system.wait(system.run("next"))["status"] == "SUCCEEDED"


def test_what_an_attempt_fetches_and_sends_by_http_does_not_depend_on_any_signed_token(system: System) -> None:
    with environment(system, SHORT):
        server = system.start_server(runner=False)
    credentials = system.register_runner()
    system.module("app", modules.quick(), oidc_audiences=["sts.example"])
    job = system.run("app", "APPLY")
    with hub(system, runner_token(system, credentials)) as runner:
        assert runner.ask(runner_hello(credentials))["type"] == "welcome"
        granted = claim(runner, job)
        ref = AttemptRef(job, granted.spec.attempt)
        with hub(system, granted.credentials.hub) as executor:
            assert executor.ask(executor_hello(ref))["type"] == "welcome"
            executor.socket.send(batch(1, "before\n"))
            assert executor.wait_for("ack")["mark"] == 1
    server.kill()
    long_ago(system, 1800)
    with environment(system, SHORT):
        system.start_server(runner=False)
    place = f"{system.url}/runnerhub/attempts/{ref.job_id}/{ref.attempt}"
    own = {"Authorization": f"Bearer {granted.credentials.hub}"}
    assert urllib3.request("GET", f"{place}/archive", headers=own).status == 200
    assert urllib3.request("GET", f"{place}/state", headers=own).status == 204
    wanted = {"audience": "sts.example", "phase": "plan"}
    assert urllib3.request("POST", f"{place}/cloud-token", headers=own, json=wanted).status == 200
    with hub(system, granted.credentials.hub) as executor:
        assert executor.ask(executor_hello(ref))["mark"] == 1
        executor.socket.send(batch(2, "after\n"))
        assert executor.wait_for("ack")["mark"] == 2
    assert system.log(job) == "before\nafter\n"
