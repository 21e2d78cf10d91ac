"""The loopback state backend, over real HTTP, as an engine and as somebody who guesses."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import urllib3

from terracrew.attempt.encryption import AttemptCipher, backend_secret
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.recorder import Offsets, Recorder
from terracrew.executor.state.http_backend import Delivery, StateBackend
from terracrew.executor.state.states import States
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.spec import Step
from terracrew.testing.fake_executor_hub import KEY, unseal

SECRET = backend_secret("hub")


def state(serial: int) -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": "l", "resources": []}).encode()


class Client:
    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(retries=False)

    async def ask(
        self, method: str, body: bytes | None = None, *, path: str = "", secret: str = SECRET, **headers: str
    ) -> tuple[int, bytes]:
        basic = base64.b64encode(f"attempt:{secret}".encode()).decode()
        sent = {"Authorization": f"Basic {basic}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        answer = await asyncio.to_thread(self._pool.request, method, self.url + path, body=body, headers=sent)
        return answer.status, answer.data


class Backend:
    def __init__(self, folder: Path, deliver: Delivery | None = None) -> None:
        self.outbox = Outbox(folder / "outbox")
        recorder = Recorder(self.outbox, Redactor([]), Offsets(folder / "offset", self.outbox))
        recorder.step = Step.APPLY
        self.states = States(LargeStates(folder / "states", 0), recorder, AttemptCipher(KEY, "job_1", 1), engine="tofu")
        self.states.is_writable = True
        self.server = StateBackend(self.states, SECRET, deliver)
        self.client = Client(self.server.url)

    @property
    def written(self) -> list[bytes]:
        records = [record for _, record in self.outbox.records()]
        return [unseal(events.state_of(record)[1]) for record in records]


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Backend]:
    backend = Backend(tmp_path)
    serving = asyncio.create_task(backend.server.serve())
    yield backend
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.feature("J15.backend")
async def test_an_engine_reads_locks_writes_and_unlocks(backend: Backend) -> None:
    ask = backend.client.ask
    lock = json.dumps({"ID": "one", "Who": "me"}).encode()
    assert await ask("GET") == (204, b"")
    assert (await ask("LOCK", lock))[0] == 200
    md5 = base64.b64encode(hashlib.md5(state(1)).digest()).decode()
    assert (await ask("POST", state(1), path="?ID=one", Content_MD5=md5))[0] == 200
    assert await ask("GET") == (200, state(1))
    assert (await ask("UNLOCK", lock))[0] == 200
    assert backend.written == [state(1)], "it is in the outbox, encrypted, when the engine is told"


@pytest.mark.feature("J15.backend")
async def test_a_second_lock_is_refused_with_the_first_ones_words(backend: Backend) -> None:
    ask = backend.client.ask
    first, second = (json.dumps({"ID": name, "Who": name}).encode() for name in ("one", "two"))
    assert (await ask("LOCK", first))[0] == 200
    assert (await ask("LOCK", first))[0] == 200, "the holder may repeat itself"
    assert await ask("LOCK", second) == (423, first)
    assert (await ask("UNLOCK", second))[0] == 409
    assert (await ask("POST", state(1), path="?ID=two"))[0] == 409
    backend.server.release()
    assert (await ask("LOCK", second))[0] == 200
    assert backend.written == []


@pytest.mark.feature("X4.engine")
@pytest.mark.parametrize("secret", ["", "wrong", SECRET[:-1], SECRET + "0"])
async def test_who_does_not_know_the_secret_gets_nothing(backend: Backend, secret: str) -> None:
    backend.states.current = state(1)
    for method in ("GET", "POST", "DELETE", "LOCK", "UNLOCK"):
        status, body = await backend.client.ask(method, state(2), secret=secret)
        assert status == 401
        assert b"lineage" not in body
    assert backend.states.current == state(1)


@pytest.mark.feature("J15.backend")
async def test_nothing_is_written_by_a_step_that_has_no_permit(backend: Backend) -> None:
    backend.states.is_writable = False
    assert (await backend.client.ask("POST", state(1)))[0] == 409
    backend.states.current = state(1)
    assert (await backend.client.ask("DELETE"))[0] == 409
    assert backend.written == []


async def test_wrong_places_methods_and_bodies_get_proper_answers(backend: Backend) -> None:
    ask = backend.client.ask
    assert (await ask("GET", path="/other"))[0] == 404
    assert (await ask("PATCH"))[0] == 405
    assert (await ask("POST", b"not json"))[0] == 400
    assert (await ask("POST", b'{"serial": 1}'))[0] == 400
    assert (await ask("LOCK", b"[]"))[0] == 400
    wrong = base64.b64encode(bytes(16)).decode()
    assert (await ask("POST", state(1), Content_MD5=wrong))[0] == 400
    assert backend.written == []
    assert (await ask("POST", state(1)))[0] == 200, "and it still serves"


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(backend: Backend) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(backend.server.url.split(":")[2].split("/")[0]))
    basic = base64.b64encode(f"attempt:{SECRET}".encode()).decode()
    writer.write(
        f"POST /state HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {basic}\r\nContent-Length: 300000000\r\n\r\n".encode()
    )
    assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_deleted_state_is_an_empty_one_of_the_same_lineage(backend: Backend) -> None:
    await backend.client.ask("POST", state(4))
    assert (await backend.client.ask("DELETE"))[0] == 200
    assert backend.states.current
    left = json.loads(backend.states.current)
    assert (left["serial"], left["lineage"], left["resources"]) == (5, "l", [])


@pytest.mark.feature("J15.backend")
@pytest.mark.parametrize("is_accepted", [True, False])
async def test_an_engine_waits_until_the_server_has_its_state_where_the_disk_may_be_lost(
    tmp_path: Path, is_accepted: bool
) -> None:
    has_arrived, wanted = asyncio.Event(), asyncio.Queue[int]()

    async def deliver(number: int) -> bool:
        wanted.put_nowait(number)
        await has_arrived.wait()
        return is_accepted

    backend = Backend(tmp_path, deliver)
    serving = asyncio.create_task(backend.server.serve())
    try:
        for number, request in enumerate((("POST", state(1)), ("DELETE", None)), 1):
            has_arrived.clear()
            writing = asyncio.create_task(backend.client.ask(*request))
            assert await asyncio.wait_for(wanted.get(), 60) == number
            assert not writing.done()
            has_arrived.set()
            assert (await writing)[0] == (200 if is_accepted else 409)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
