"""Images that the dispatcher `docker` cannot get or cannot run, with a real daemon: each is named with the reason."""

import asyncio
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.attempt import exit_codes
from terracrew.protocol.events import Stream
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine import platforms
from tests.machine.platforms import executor_image
from tests.runner.dispatch.docker.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

END_SECONDS = 300.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bench(platforms.need("docker"), tmp_path) as opened:
        yield opened


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


RUNS_SHELL = 'resource "terraform_data" "one" {\n  provisioner "local-exec" { command = "true" }\n}\n'


@pytest.mark.feature("D3.docker")
async def test_an_image_without_a_shell_runs_jobs_and_a_module_that_needs_one_says_so(bench: Bench) -> None:
    dispatcher = bench.open(image=executor_image.image(bench.address, has_shell=False))
    async with asyncio.timeout(END_SECONDS):
        start = bench.start('resource "terraform_data" "one" {}\n')
        assert (await dispatcher.watch(await dispatcher.start(start))).code == exit_codes.DELIVERED
        assert bench.hub.result.status == "SUCCEEDED", bench.hub.result.message
        hub = FakeExecutorHub()
        await hub.start()
        start = bench.start(RUNS_SHELL, 2, hub)
        assert (await dispatcher.watch(await dispatcher.start(start))).code == exit_codes.DELIVERED
        await hub.stop()
    assert hub.result.status == "FAILED"
    assert hub.result.message == "apply failed: exit code 1: local-exec provisioner error"
    assert b"/bin/sh: no such file or directory" in hub.log(Stream.OUTPUT)


@pytest.mark.feature("D3.docker")
async def test_an_image_without_the_users_of_executor_and_engine_or_with_another_one_runs_jobs(bench: Bench) -> None:
    folder = bench.folder / "users"
    folder.mkdir()
    (folder / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    lines = [f"FROM {bench.settings.image}", "COPY passwd /etc/passwd", "COPY passwd /etc/group", "USER 65534:65534"]
    (folder / "Dockerfile").write_text("\n".join(lines))
    bench.containers.run("build", "--quiet", "--tag", "terracrew-test/users:1", str(folder))
    dispatcher = bench.open(image="terracrew-test/users:1")
    start = bench.start(RUNS_SHELL.replace("true", "id -u"))
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(await dispatcher.start(start))).code == exit_codes.DELIVERED
    assert bench.hub.result.status == "SUCCEEDED", bench.hub.result.message
    assert b"10002" in bench.hub.log(Stream.OUTPUT)


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


def _broken(bench: Bench) -> Path:
    folder = bench.folder / "broken"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    return folder


@pytest.mark.feature("D3.docker")
async def test_an_image_says_which_engines_it_has(bench: Bench) -> None:
    found = await bench.open().engines()
    assert found is not None
    assert list(found) == ["tofu"]
    assert bench.containers.names() == []
