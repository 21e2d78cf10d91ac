"""The dispatcher `docker` on bad days, with a real daemon: what dies, hangs, is missing or is somebody else's."""

import asyncio
import os
import sys
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiodocker
import msgspec
import pytest

from terracrew.attempt import delivered, directories, exit_codes, files
from terracrew.protocol.events import Stream
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.docker import attempt_files, containers
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.dispatcher import ContainerHandle, Docker
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine import platforms
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms import executor_image
from tests.machine.platforms.containers import Containers
from tests.machine.platforms.cut_socket import CutSocket
from tests.machine.platforms.docker import Docker as DockerPlatform

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

END_SECONDS = 300.0
STARTS = int(os.environ.get("TERRACREW_TEST_DOCKER_STARTS", "6"))
"""How many executors start at once. 50 take minutes on two cores."""


class Bench:
    """One runner instance with the dispatcher `docker`, a hub, and attempts."""

    def __init__(self, address: str, folder: Path, hub: FakeExecutorHub, gate: NetworkGate) -> None:
        self.address, self.folder, self.hub, self.gate = address, folder, hub, gate
        self.settings = DockerSettings(
            executor_image.image(address), host=address, is_local_image=True, network="host", memory_bytes=1 << 30
        )
        self.containers = Containers(address, containers.owner(str(folder), "rnr_1", "one"))
        self.opened: list[Docker] = []

    def open(self, key: str = "", **changes: Any) -> Docker:
        chosen = msgspec.structs.replace(self.settings, **changes)
        dispatcher = Docker(chosen, Daemon(chosen.host, {}), {}, containers.owner("", "rnr_1", "one"))
        dispatcher.use_instance(key or str(self.folder))
        self.opened.append(dispatcher)
        return dispatcher

    async def held(self, dispatcher: Docker, start: ExecutorStart) -> ContainerHandle:
        """Start an executor, and return when its engine stands at the gate. Fails at once if it cannot be started."""
        handle = await dispatcher.start(start)
        ending, reaching = (asyncio.create_task(each) for each in (dispatcher.watch(handle), self.gate.reached()))
        await asyncio.wait({ending, reaching}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            reaching.cancel()
            pytest.fail(f"the executor did not reach the gate: {ending.exception() or ending.result()}")
        ending.cancel()
        await reaching
        return handle

    def start(self, main: str = "", number: int = 1, hub: FakeExecutorHub | None = None) -> ExecutorStart:
        main = main or f'resource "terraform_data" "held" {{\n  {self.gate.provisioner()}\n}}\n'
        archive = module(self.folder / f"source-{number}", main=main)
        processes = ExecutorProcesses(hub or self.hub, self.folder)
        start = processes.start_of(processes.spec(JobType.APPLY, archive, attempt=number))
        assert start.granted
        directory = directories.create(self.folder, start.granted, start.server_url)
        return msgspec.structs.replace(start, directory=str(directory))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    address = platforms.need("docker")
    hub, gate = FakeExecutorHub(), NetworkGate()
    await hub.start()
    await gate.listen()
    bench = Bench(address, tmp_path, hub, gate)
    yield bench
    for dispatcher in bench.opened:
        await dispatcher.close()
    bench.containers.remove_all()
    await gate.close()
    await hub.stop()


@pytest.mark.feature("D6.watched", "O4.adopted")
async def test_what_a_killed_container_left_is_delivered_by_another_one(bench: Bench) -> None:
    dispatcher, start = bench.open(), bench.start()
    directory = Path(start.directory)
    handle = await bench.held(dispatcher, start)
    bench.containers.run("kill", "--signal", "KILL", bench.containers.owner.name(directory.name))
    async with asyncio.timeout(END_SECONDS):
        ended = await dispatcher.watch(handle)
        assert ended.code == -9
        assert ended.reason == "its container was ended by signal 9"
        assert not delivered.is_done(directory)
        salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
        assert (await dispatcher.watch(await dispatcher.start(salvage))).code == exit_codes.DELIVERED
    assert b"at the gate" in bench.hub.log(Stream.OUTPUT)
    assert not bench.hub.has_result
    assert delivered.is_done(directory)
    await dispatcher.place.remove(directory)
    assert bench.containers.names() == []


@pytest.mark.feature("D6.watched", "O4.salvaged")
async def test_a_delivery_that_cannot_be_started_is_still_to_be_made_after_a_restart(bench: Bench) -> None:
    """Symptom: the next runner process took the attempt for one that had never begun, and removed its volume."""
    first, start = bench.open(), bench.start()
    handle = await bench.held(first, start)
    bench.containers.run("kill", "--signal", "KILL", bench.containers.owner.name(Path(start.directory).name))
    salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
    async with asyncio.timeout(END_SECONDS):
        await first.watch(handle)
        broken = bench.open(network="terracrew-test-missing")
        with pytest.raises(NotStarted, match="cannot be started"):
            await broken.watch(await broken.start(salvage))
        second = bench.open()
        ended = await second.watch(second.adopt(Path(start.directory)))
        assert ended.code is None
        assert (await second.watch(await second.start(salvage))).code == exit_codes.DELIVERED
    assert b"at the gate" in bench.hub.log(Stream.OUTPUT)


@pytest.mark.feature("D6.watched")
async def test_a_container_that_is_removed_before_it_is_read_does_not_count_as_never_begun(bench: Bench) -> None:
    daemon, directory = Daemon(bench.address, {}), Path(bench.start().directory)
    try:
        with pytest.raises(aiodocker.DockerError, match=r"(?i)no such container"):
            await attempt_files.copy_ends(
                daemon, daemon.client.containers.container("terracrew-test-missing"), directory
            )
    finally:
        await daemon.close()


@pytest.mark.feature("D6.watched")
async def test_a_daemon_that_is_away_does_not_make_an_attempt_gone(bench: Bench) -> None:
    socket = CutSocket(bench.address, bench.folder / "socket")
    await socket.open()
    dispatcher, start = bench.open(host=socket.address), bench.start()
    handle = await bench.held(dispatcher, start)
    watching = asyncio.create_task(dispatcher.watch(handle))
    await socket.cut()
    done, _ = await asyncio.wait({watching}, timeout=2)
    assert not done, "the attempt was reported as over, but only the daemon was away"
    await bench.gate.open()
    await bench.hub.until(lambda: bench.hub.has_result)
    assert not watching.done()
    await socket.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await watching).code == exit_codes.DELIVERED
    await dispatcher.place.remove(Path(start.directory))
    await dispatcher.close()
    await socket.cut()


@pytest.mark.feature("D6.watched")
async def test_an_attempt_whose_container_and_volume_were_removed_has_nothing_left(bench: Bench) -> None:
    dispatcher, start = bench.open(), bench.start()
    handle = await bench.held(dispatcher, start)
    bench.containers.remove_all()
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(handle)).code == exit_codes.NOTHING_LEFT


@pytest.mark.feature("D3.docker")
async def test_an_image_that_is_missing_is_named(bench: Bench) -> None:
    dispatcher, start = bench.open(image="terracrew-test/missing:1"), bench.start()
    with pytest.raises(NotStarted, match="has no image terracrew-test/missing:1, and LOCAL_IMAGE says"):
        await dispatcher.watch(await dispatcher.start(start))
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker")
async def test_an_image_that_no_registry_gives_is_named_with_the_reason(bench: Bench) -> None:
    refused = "127.0.0.1:9/terracrew/executor:1"  # nothing listens there
    dispatcher, start = bench.open(image=refused, is_local_image=False), bench.start()
    with pytest.raises(NotStarted, match=r"the image 127.0.0.1:9/terracrew/executor:1 cannot be pulled: .*127.0.0.1:9"):
        await dispatcher.watch(await dispatcher.start(start))


@pytest.mark.feature("D3.docker", "J9.escalation")
async def test_a_registry_that_hangs_ends_the_start_and_a_cancel_does_so_at_once(bench: Bench) -> None:
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        image = f"127.0.0.1:{server.sockets[0].getsockname()[1]}/executor:1"
        slow = bench.open(image=image, is_local_image=False, pull_seconds=1.0)
        with pytest.raises(NotStarted, match="its registry is too slow, or does not answer"):
            await slow.watch(await slow.start(bench.start()))
        asked.clear()
        patient = bench.open(image=image, is_local_image=False)
        handle = await patient.start(bench.start(number=2))
        async with asyncio.timeout(END_SECONDS):
            await asked.wait()
            assert patient.waits_for(handle) == f"Pulling the image {image}"
            await patient.stop(handle, "interrupt")
            with pytest.raises(NotStarted, match="canceled before its container was started"):
                await patient.watch(handle)
            assert patient.waits_for(handle) == ""


@pytest.mark.feature("D3.docker")
async def test_a_program_that_the_image_lacks_is_named(bench: Bench) -> None:
    bench.containers.run("tag", bench.settings.image, "terracrew-test/broken:1")
    bench.containers.run("build", "--quiet", "--tag", "terracrew-test/broken:1", str(_broken(bench)))
    dispatcher, start = bench.open(image="terracrew-test/broken:1"), bench.start()
    with pytest.raises(NotStarted, match=r"cannot be started: .*python3"):
        await dispatcher.watch(await dispatcher.start(start))


@pytest.mark.feature("D3.docker")
async def test_an_image_of_another_architecture_is_named(bench: Bench) -> None:
    folder = bench.folder / "foreign"
    folder.mkdir()
    program = bytearray(Path(sys.executable).resolve().read_bytes())
    program[18:20] = (0xF7).to_bytes(2, "little")  # the number of another machine in the header of the program
    (folder / "python3").write_bytes(program)
    (folder / "python3").chmod(0o755)
    lines = [f"FROM {bench.settings.image}", "RUN rm /usr/local/bin/python3", "COPY python3 /usr/local/bin/python3"]
    (folder / "Dockerfile").write_text("\n".join(lines).replace('"', ""))
    bench.containers.run("build", "--network", "host", "--quiet", "--tag", "terracrew-test/foreign:1", str(folder))
    dispatcher, start = bench.open(image="terracrew-test/foreign:1"), bench.start()
    with pytest.raises(NotStarted, match=r"(?i)exec format error"):
        await dispatcher.watch(await dispatcher.start(start))
    await dispatcher.place.remove(Path(start.directory))
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker")
async def test_a_registry_that_wants_a_password_gets_it_and_its_absence_is_named(bench: Bench) -> None:
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line = next((each for each in head.splitlines() if each.lower().startswith("authorization:")), "")
        seen.append(line)
        status = "404 Not Found" if line else '401 Unauthorized\r\nWWW-Authenticate: Basic realm="crew"'
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        image = f"127.0.0.1:{server.sockets[0].getsockname()[1]}/executor:1"
        without = bench.open(image=image, is_local_image=False)
        with pytest.raises(NotStarted, match=r"cannot be pulled: .*auth"):
            await without.watch(await without.start(bench.start()))
        assert not any(seen)
        given = {"registry_username": "crew", "registry_password": "hush-hush"}
        with_password = bench.open(image=image, is_local_image=False, **given)
        with pytest.raises(NotStarted, match="cannot be pulled") as refused:
            await with_password.watch(await with_password.start(bench.start(number=2)))
    assert f"authorization: basic {b64encode(b'crew:hush-hush').decode()}".lower() in [each.lower() for each in seen]
    assert "hush-hush" not in str(refused.value)


@pytest.mark.feature("D6.watched", "O4.adopted")
async def test_a_daemon_that_restarts_in_the_middle_of_an_apply_loses_nothing(bench: Bench) -> None:
    own = DockerPlatform("docker-restarted")
    address = own.join()
    try:
        private = Bench(address, bench.folder, bench.hub, bench.gate)
        dispatcher, start = private.open(), private.start()
        handle = await private.held(dispatcher, start)
        watching = asyncio.create_task(dispatcher.watch(handle))
        await asyncio.to_thread(own.restart)
        async with asyncio.timeout(END_SECONDS):
            ended = await watching
            if ended.code != exit_codes.DELIVERED:
                salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
                assert (await dispatcher.watch(await dispatcher.start(salvage))).code == exit_codes.DELIVERED
        assert b"at the gate" in bench.hub.log(Stream.OUTPUT)
        assert bench.hub.states, "the engine had the time to save its state"
        assert delivered.is_done(Path(start.directory))
        await dispatcher.place.remove(Path(start.directory))
        assert private.containers.names() == []
        await dispatcher.close()
    finally:
        own.leave()


def _broken(bench: Bench) -> Path:
    folder = bench.folder / "broken"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    return folder


@pytest.mark.feature("D3.docker")
async def test_an_engine_that_is_killed_for_memory_is_named(bench: Bench) -> None:
    eats = 'resource "terraform_data" "eats" {\n  provisioner "local-exec" { command = "%s" }\n}\n'
    start = bench.start(eats % "echo starts; python3 -c 'bytearray(3 << 30)'; echo ended with $?; exit 9")
    dispatcher = bench.open(memory_bytes=600 << 20)
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(await dispatcher.start(start))).code == exit_codes.DELIVERED
    assert bench.hub.result.status == "FAILED"
    assert b"ended with 137" in bench.hub.log(Stream.OUTPUT)


@pytest.mark.feature("D3.docker", "X4.isolation")
async def test_an_engine_has_another_user_no_capability_and_nothing_of_its_executor(bench: Bench) -> None:
    looks = (
        "id -u; cat /proc/self/status; cat /proc/$PPID/environ > /dev/null && echo readable | cat; "
        "ls /terracrew/attempts; cat /terracrew/attempts/*/attempt.json; touch /usr/bin/changed; ls /var/run/docker.sock; true"
    )
    main = f'resource "terraform_data" "looks" {{\n  provisioner "local-exec" {{ command = "{looks}" }}\n}}\n'
    dispatcher = bench.open()
    start = bench.start(main.replace("$PPID", "1"))
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(await dispatcher.start(start))).code == exit_codes.DELIVERED
    log = bench.hub.log(Stream.OUTPUT).decode()
    assert bench.hub.result.status == "SUCCEEDED", log
    assert "10002" in log
    assert "CapEff:\t0000000000000000" in log
    assert "NoNewPrivs:\t1" in log
    assert "\x1b[0mreadable" not in log
    assert log.count("ermission denied") >= 2
    assert "Read-only file system" in log or "changed: Permission denied" in log
    shown = bench.containers.show(Path(start.directory).name)
    assert shown
    assert shown["HostConfig"]["ReadonlyRootfs"]
    assert "docker.sock" not in str(shown["Mounts"])


@pytest.mark.feature("D6.watched")
async def test_two_runners_of_one_daemon_do_not_touch_each_others_containers(bench: Bench) -> None:
    first, second = bench.open(), bench.open(key="another runner")
    start = bench.start()
    handle = await bench.held(first, start)
    await second.place.sweep(list)
    with pytest.raises(NotStarted):
        await second.watch(second.adopt(Path(bench.start(number=2).directory)))
    assert bench.containers.is_running(Path(start.directory).name)
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await first.watch(handle)).code == exit_codes.DELIVERED


@pytest.mark.feature("D6.watched")
async def test_what_a_crashed_runner_left_is_removed_by_the_next_one(bench: Bench) -> None:
    first, start = bench.open(), bench.start()
    handle = await first.start(start)
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        await first.watch(handle)
    await first.close()
    second = bench.open()
    name = Path(start.directory).name
    await second.place.sweep(lambda: [name])
    assert bench.containers.show(name)
    await second.place.sweep(list)
    assert bench.containers.names() == []
    successor = bench.open(key="the same instance with a new working directory")
    await successor.place.sweep(list)


async def test_a_container_that_helped_a_killed_process_is_removed_after_an_hour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher, other = bench.open(), bench.open(key="another runner")
    labels = [f"--label={name}={value}" for name, value in bench.containers.owner.labels("").items()]
    bench.containers.run("create", *labels, bench.settings.image, "true")
    await dispatcher.place.sweep(list)
    assert len(bench.containers.names()) == 1, "it may be in use"
    an_hour_later = time.time() + 3700
    monkeypatch.setattr(time, "time", lambda: an_hour_later)
    await other.place.sweep(list)
    assert len(bench.containers.names()) == 1
    await dispatcher.place.sweep(list)
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker")
async def test_a_directory_of_the_host_can_hold_the_attempts(bench: Bench) -> None:
    folder = bench.folder / "bound"
    folder.mkdir()
    dispatcher, start = bench.open(bind_path=str(folder)), bench.start()
    directory = Path(start.directory)
    handle = await bench.held(dispatcher, start)
    [left] = folder.iterdir()
    assert (left / "attempts" / directory.name / files.RECORD).exists()
    assert not (left / "start.json").exists(), "it has secrets that are kept in memory only"
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(handle)).code == exit_codes.DELIVERED
    await dispatcher.place.remove(directory)
    assert list(folder.iterdir()) == []
    assert bench.containers.names() == []


@pytest.mark.feature("D6.watched")
async def test_many_executors_start_at_once(bench: Bench) -> None:
    dispatcher = bench.open()
    hubs = [FakeExecutorHub() for _ in range(STARTS)]
    await asyncio.gather(*(hub.start() for hub in hubs))
    starts = [
        bench.start('resource "terraform_data" "one" {}\n', number, hub) for number, hub in enumerate(hubs, start=1)
    ]
    async with asyncio.timeout(END_SECONDS):
        handles = await asyncio.gather(*(dispatcher.start(start) for start in starts))
        ends = await asyncio.gather(*(dispatcher.watch(handle) for handle in handles))
        assert {end.code for end in ends} == {exit_codes.DELIVERED}
        assert [hub.result.status for hub in hubs] == ["SUCCEEDED"] * STARTS
        await asyncio.gather(*(dispatcher.place.remove(Path(start.directory)) for start in starts))
    assert bench.containers.names() == []
    await asyncio.gather(*(hub.stop() for hub in hubs))


@pytest.mark.feature("D3.docker")
async def test_an_image_says_which_engines_it_has(bench: Bench) -> None:
    found = await bench.open().engines()
    assert found is not None
    assert list(found) == ["tofu"]
    assert bench.containers.names() == []
