"""A hostile runner, a hostile executor and a hostile engine against a real server: refused, and nothing changed."""

import contextlib
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import msgspec
import pytest
import urllib3
from websockets.exceptions import ConnectionClosed

from terracrew.protocol import frames, messages, version
from terracrew.protocol.events import Result, StepStatus
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import Step
from tests.e2e import modules
from tests.e2e.simulated_runner import Client, batch, claim, executor_hello, hub, runner_hello, runner_token
from tests.e2e.system import System, running

pytestmark = pytest.mark.feature("X4", "X2", "C4")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(Path(tmp_path_factory.mktemp("hostile"))) as found:
        found.start_server(runner=False)
        found.module("ours", modules.quick())
        found.module("theirs", modules.quick())
        yield found


class Attempt:
    """A running attempt of a simulated runner: what its executor holds."""

    def __init__(self, system: System, runner: Client, granted: Granted) -> None:
        self.system = system
        self.runner = runner
        self.granted = granted
        self.ref = AttemptRef(granted.spec.job_id, granted.spec.attempt)

    def request(self, method: str, path: str, token: str, body: bytes | None = None) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return urllib3.request(method, self.system.url + path, headers=headers, body=body, retries=False).status


_numbers = iter(range(1, 1000))


@pytest.fixture
def crew(system: System) -> Iterator[tuple[Client, dict[str, str]]]:
    credentials = system.register_runner(f"crew-{next(_numbers)}")
    with hub(system, runner_token(system, credentials)) as runner:
        assert runner.ask(runner_hello(credentials))["type"] == "welcome"
        yield runner, credentials
    system.api.delete(f"/runners/{credentials['TERRACREW_RUNNER__ID']}?force=true")


@pytest.fixture
def attempt(system: System, crew: tuple[Client, dict[str, str]]) -> Iterator[Attempt]:
    job = system.run("ours")
    yield Attempt(system, crew[0], claim(crew[0], job))
    if system.status(job) not in ("SUCCEEDED", "FAILED", "CANCELED"):
        crew[0].send(messages.Gone(job, 1, saw_process=True, reason="the test ended"))
        crew[0].wait_for("settled")
        system.api.post(f"/jobs/{job}/cancel", {"mode": "kill"})


def refused(client: Client) -> str:
    """The code of the refusal that ends the connection."""
    code = client.wait_for("refused")["code"]
    with pytest.raises(ConnectionClosed):
        client.socket.recv(10)
    return code


@contextlib.contextmanager
def living(runner: Client) -> Generator[None]:
    """Meanwhile it does as a runner does: whatever it is configured to, it answers to with a heartbeat."""
    is_over = threading.Event()

    def live() -> None:
        while not is_over.is_set():
            with contextlib.suppress(TimeoutError):
                if runner.get(0.1)["type"] == "configure":
                    runner.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=[]))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def wait_for_end(client: Client) -> None:
    """Read until the server has closed the connection; a timeout fails the test."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            client.socket.recv(10)


def test_a_hub_credential_is_good_for_its_own_attempt_only(attempt: Attempt) -> None:
    hub_token = attempt.granted.credentials.hub
    for ref in (AttemptRef(attempt.ref.job_id, 2), AttemptRef("job_" + "0" * 32, 1)):
        with hub(attempt.system, hub_token) as client:
            client.send(executor_hello(ref))
            assert refused(client) in ("forbidden", "not_found")
    own, other = f"/runnerhub/attempts/{attempt.ref.job_id}/1", f"/runnerhub/attempts/job_{'0' * 32}/1"
    assert attempt.request("GET", f"{own}/archive", hub_token) == 200
    assert attempt.request("GET", f"{other}/archive", hub_token) in (403, 404)
    assert attempt.request("PUT", f"{other}/states/1", hub_token, b"x") in (403, 404)
    for path in (
        "/api/v1/modules/ours/state",
        "/api/v1/jobs",
        "/api/v1/modules/theirs",
        "/api/v1/runners",
        "/api/v1/me",
    ):
        assert attempt.request("GET", path, hub_token) in (200, 403, 404)
    assert attempt.request("GET", "/api/v1/modules/theirs/state", hub_token) in (403, 404)
    assert attempt.request("POST", f"/api/v1/jobs/{attempt.ref.job_id}/cancel", hub_token, b"{}") in (400, 403, 404)


def test_what_the_engine_can_read_cannot_report(attempt: Attempt) -> None:
    engine = attempt.granted.credentials.api
    with hub(attempt.system, engine) as client:
        client.send(executor_hello(attempt.ref))
        assert refused(client) in ("unauthenticated", "forbidden", "not_found", "invalid")
    own = f"/runnerhub/attempts/{attempt.ref.job_id}/1"
    assert attempt.request("PUT", f"{own}/states/1", engine, b"x") in (401, 403, 404)
    assert attempt.request("GET", f"/api/v1/jobs/{attempt.ref.job_id}", engine) == 200
    assert attempt.request("GET", "/api/v1/modules/theirs/state", engine) in (403, 404)
    assert attempt.request("POST", "/api/v1/modules/ours/jobs", engine, b'{"type":"APPLY"}') in (400, 403, 404)


def test_the_engines_token_ends_with_its_attempt_and_the_hub_credential_with_its_result(attempt: Attempt) -> None:
    job = attempt.ref.job_id
    with hub(attempt.system, attempt.granted.credentials.hub) as executor:
        assert executor.ask(executor_hello(attempt.ref))["type"] == "welcome"
        executor.socket.send(batch(1, StepStatus(Step.PLAN, "RUNNING"), "hello\n", Result("SUCCEEDED")))
        assert executor.wait_for("ack")["mark"] == 3
    assert attempt.request("GET", f"/api/v1/jobs/{job}", attempt.granted.credentials.api) == 401
    before = attempt.system.job(job)
    with hub(attempt.system, attempt.granted.credentials.hub) as executor:
        assert executor.ask(executor_hello(attempt.ref))["is_superseded"]
        answer = executor.ask(messages.Begin(0))
        assert (answer["type"], answer["code"]) == ("begin_refused", "superseded")
        executor.socket.send(batch(4, Result("FAILED", "changed my mind")))
        refused = executor.wait_for("refused")
        assert (refused["is_final"], "its result has arrived" in refused["message"]) == (True, True)
    assert attempt.system.job(job) == before


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\xff" * 100,
        frames.pack(1, 2, b""),
        frames.pack(0, 0, b""),
        frames.pack(5, 1, batch(1, "x\n")[30:]),
        batch(7, "a gap\n"),
    ],
    ids=["empty", "short", "rubbish", "miscounted", "zero", "torn", "gap"],
)
def test_malformed_batches_are_refused_and_nothing_is_stored(attempt: Attempt, frame: bytes) -> None:
    with hub(attempt.system, attempt.granted.credentials.hub) as executor:
        executor.ask(executor_hello(attempt.ref))
        executor.socket.send(frame)
        wait_for_end(executor)
    assert attempt.system.log(attempt.ref.job_id) == ""
    assert attempt.system.status(attempt.ref.job_id) == "CLAIMED"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"type":"nonsense"}',
        '{"type":"claim"}',
        '{"type":"claim","job_id":"x","attempt":"1"}',
        '{"type":"heartbeat","version":"1","is_draining":false,"attempts":[],"extra":1}',
        "x" * (1 << 20),
    ],
)
def test_rubbish_from_a_runner_ends_its_connection_and_nothing_else(
    crew: tuple[Client, dict[str, str]], system: System, text: str
) -> None:
    crew[0].socket.send(text)
    wait_for_end(crew[0])
    with hub(system, runner_token(system, crew[1])) as again:
        assert again.ask(runner_hello(crew[1]))["type"] == "welcome"


def test_a_runner_cannot_speak_for_another_ones_attempt(attempt: Attempt, system: System) -> None:
    stranger = system.register_runner(f"stranger-{next(_numbers)}")
    with hub(system, runner_token(system, stranger)) as client:
        client.ask(runner_hello(stranger))
        client.send(messages.Gone(attempt.ref.job_id, 1, saw_process=True, reason="I say so"))
        client.wait_for("settled")
        client.send(messages.HandBack(attempt.ref.job_id, 1, "I say so"))
        client.wait_for("settled")
        client.send(messages.Claim(attempt.ref.job_id, 1))
        assert client.wait_for("missed")["job_id"] == attempt.ref.job_id
    view = system.job(attempt.ref.job_id)
    assert (view["status"], view["attempt"]) == ("CLAIMED", 1)
    system.api.delete(f"/runners/{stranger['TERRACREW_RUNNER__ID']}?force=true")


@pytest.mark.feature("A5")
def test_a_runners_token_serves_its_own_record_only(crew: tuple[Client, dict[str, str]], system: System) -> None:
    other = system.register_runner(f"other-{next(_numbers)}")
    with hub(system, runner_token(system, crew[1])) as client:
        client.send(runner_hello(other))
        assert refused(client) in ("not_found", "forbidden")
    for path in ("/api/v1/jobs", "/api/v1/modules", "/api/v1/service-accounts"):
        status = urllib3.request(
            "GET",
            system.url + path,
            headers={"Authorization": f"Bearer {runner_token(system, crew[1])}"},
            retries=False,
        )
        assert status.status in (403, 404) or msgspec.json.decode(status.data)["items"] == []


@pytest.mark.feature("R4")
def test_a_second_process_of_one_record_is_refused_and_the_first_is_undisturbed(
    crew: tuple[Client, dict[str, str]], system: System
) -> None:
    runner, credentials = crew
    key = "another" * 5
    for second in (
        runner_hello(credentials, instance="two", instance_key=key),
        runner_hello(credentials, instance_key=key),
    ):
        with hub(system, runner_token(system, credentials)) as client:
            client.send(second)
            with living(runner):
                assert refused(client) == "conflict"
    job = system.run("theirs")
    assert claim(runner, job).spec.job_id == job
    runner.send(messages.HandBack(job, 1, "the test ended"))
    runner.wait_for("settled")
    system.api.post(f"/jobs/{job}/cancel", {"mode": "kill"})


@pytest.mark.feature("C5")
def test_a_runner_of_another_protocol_is_told_both_versions(
    crew: tuple[Client, dict[str, str]], system: System
) -> None:
    with hub(system, runner_token(system, crew[1])) as client:
        client.send(runner_hello(crew[1], oldest_protocol=7, newest_protocol=9))
        answer = client.wait_for("refused")
        assert answer["code"] == "incompatible"
        assert "7 to 9" in answer["message"]
        assert f"this server {version.NEWEST_VERSION}" in answer["message"]
