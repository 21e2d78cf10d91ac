"""The dispatcher `docker` on bad days, with a real daemon: what dies, hangs or is somebody else's."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiodocker
import msgspec
import pytest

from terracrew.attempt import delivered, exit_codes, files
from terracrew.protocol.events import Stream
from terracrew.runner.dispatch.docker import attempt_files, bindings
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.protocol import NotStarted
from tests.machine import platforms
from tests.machine.platforms.cut_socket import CutSocket
from tests.machine.platforms.docker import Docker as DockerPlatform
from tests.runner.dispatch.docker.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

END_SECONDS = 300.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bench(platforms.need("docker"), tmp_path) as opened:
        yield opened


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


@pytest.mark.feature("D6.watched", "O4.adopted")
async def test_a_daemon_that_restarts_in_the_middle_of_an_apply_loses_nothing(tmp_path: Path) -> None:
    platforms.need("docker")
    own = DockerPlatform("docker-restarted")
    address = own.join()
    try:
        async with Bench(address, tmp_path) as bench, asyncio.timeout(END_SECONDS):
            dispatcher, start = bench.open(), bench.start()
            watching = asyncio.create_task(dispatcher.watch(await bench.held(dispatcher, start)))
            await asyncio.to_thread(own.restart)
            if (await watching).code != exit_codes.DELIVERED:
                salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
                assert (await dispatcher.watch(await dispatcher.start(salvage))).code == exit_codes.DELIVERED
            assert b"at the gate" in bench.hub.log(Stream.OUTPUT)
            assert bench.hub.states, "the engine had the time to save its state"
            assert delivered.is_done(Path(start.directory))
            await dispatcher.place.remove(Path(start.directory))
            assert bench.containers.names() == []
    finally:
        own.leave()


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
    await second.place.sweep(lambda: [Path(start.directory)])
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


@pytest.mark.feature("D3.docker")
async def test_a_file_of_the_host_reaches_the_container_and_cannot_be_changed_there(bench: Bench) -> None:
    folder = bench.folder / "credentials"
    folder.mkdir()
    (folder / "kubeconfig").write_text("of the host")
    bound = bindings.parse(f"{folder}:/home/kube:ro").bindings
    dispatcher, start = bench.open(bindings=bound), bench.start()
    handle = await bench.held(dispatcher, start)
    python = ("exec", bench.containers.owner.name(Path(start.directory).name), "python3", "-c")
    assert bench.containers.run(*python, "print(open('/home/kube/kubeconfig').read())") == "of the host\n"
    with pytest.raises(subprocess.CalledProcessError):
        bench.containers.run(*python, "open('/home/kube/another', 'w')")
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(handle)).code == exit_codes.DELIVERED
