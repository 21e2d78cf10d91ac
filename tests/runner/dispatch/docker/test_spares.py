"""A container that is ready for the next job: only a job that asks for exactly this gets it, and it never stays without one."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import delivered, exit_codes, files
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.events import Stream
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.docker import attempt_files, containers, spares, volumes
from terracrew.runner.dispatch.docker.containers import SPARE_PREFIX
from terracrew.runner.dispatch.docker.dispatcher import Docker
from terracrew.runner.dispatch.docker.volumes import Volumes
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.system import durable
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine import platforms
from tests.machine.platforms.cut_socket import CutSocket
from tests.runner.dispatch.docker.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

END_SECONDS = 300.0
SMALL = 'resource "terraform_data" "one" {}\n'


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(spares, "PAUSE_SECONDS", 0.0)
    async with Bench(platforms.need("docker"), tmp_path) as opened:
        yield opened


def spare_names(bench: Bench) -> list[str]:
    """The names of the spare containers that run, whether an attempt has taken them or not."""
    label = f"label={containers.LABEL}.key={bench.containers.owner.key}"
    names = bench.containers.run("ps", "--filter", label, "--format", "{{.Names}}").split()
    return [name.partition(f"{bench.containers.owner.key}-")[2] for name in names if SPARE_PREFIX in name]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(END_SECONDS):
        while not await asyncio.to_thread(is_so):
            await asyncio.sleep(0.05)


async def one_ready(bench: Bench, dispatcher: Docker) -> str:
    """Run an attempt with a hub of its own, and return the name of the spare container that is ready afterwards."""
    hub = FakeExecutorHub()
    await hub.start()
    start = bench.start(SMALL, 1, hub)
    await run(dispatcher, start)
    await hub.stop()
    await dispatcher.place.remove(Path(start.directory))
    await until(lambda: dispatcher.has_spare)
    [name] = spare_names(bench)
    return name


async def run(dispatcher: Docker, start: ExecutorStart) -> None:
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(await dispatcher.start(start))).code == exit_codes.DELIVERED


@pytest.mark.feature("D3.docker")
async def test_the_next_job_gets_the_container_that_is_ready_and_leaves_nothing(bench: Bench) -> None:
    dispatcher = bench.open(has_spare=True)
    spare = await one_ready(bench, dispatcher)
    start = bench.start(number=2)
    directory = Path(start.directory)
    handle = await bench.held(dispatcher, start)
    assert containers.name_of(directory) == spare
    await dispatcher.place.sweep(lambda: [directory])
    assert spare in spare_names(bench), "a sweep removed the container of an attempt"
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(handle)).code == exit_codes.DELIVERED
    assert delivered.is_done(directory)
    await dispatcher.place.remove(directory)
    await dispatcher.close()
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker")
async def test_a_job_that_asks_for_something_else_does_not_get_it(bench: Bench) -> None:
    dispatcher = bench.open(has_spare=True)
    spare = await one_ready(bench, dispatcher)
    start = msgspec.structs.replace(bench.start(SMALL, 2), choice=DispatcherChoice(memory_mb=700))
    await run(dispatcher, start)
    assert containers.name_of(Path(start.directory)) == Path(start.directory).name
    await until(lambda: len(spare_names(bench)) == 1 and spare not in spare_names(bench))
    [other] = spare_names(bench)
    shown = bench.containers.show(other)
    assert shown
    assert shown["HostConfig"]["Memory"] == 700 << 20, "the one that is ready is for a job like the last one"


@pytest.mark.feature("D3.docker")
async def test_a_container_of_an_older_image_of_the_same_name_is_not_used(bench: Bench) -> None:
    image = "terracrew-test/spares:moving"
    bench.containers.run("tag", bench.settings.image, image)
    try:
        dispatcher = bench.open(has_spare=True, image=image)
        spare = await one_ready(bench, dispatcher)
        build = ["docker", "--host", bench.address, "build", "--tag", image, "-"]
        text = f"FROM {bench.settings.image}\nLABEL moved=yes\n"
        subprocess.run(build, input=text.encode(), env={"DOCKER_BUILDKIT": "0"}, check=True, capture_output=True)
        start = bench.start(SMALL, 2)
        await run(dispatcher, start)
        shown = bench.containers.show(Path(start.directory).name)
        assert shown
        assert shown["Config"]["Labels"]["moved"] == "yes"
        await until(lambda: spare not in spare_names(bench))
    finally:
        bench.containers.remove_all()
        bench.containers.run("rmi", "--force", image)


@pytest.mark.feature("D3.docker")
async def test_a_container_that_was_killed_while_it_waited_is_not_used(bench: Bench) -> None:
    dispatcher = bench.open(has_spare=True)
    spare = await one_ready(bench, dispatcher)
    bench.containers.run("kill", bench.containers.owner.name(spare))
    start = bench.start(SMALL, 2)
    await run(dispatcher, start)
    assert containers.name_of(Path(start.directory)) != spare
    await until(lambda: bench.containers.show(spare) is None)


@pytest.mark.feature("D3.docker")
async def test_a_container_that_no_job_takes_in_time_is_removed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "USABLE_SECONDS", 2.0)
    dispatcher, start = bench.open(has_spare=True), bench.start(SMALL)
    await run(dispatcher, start)
    await dispatcher.place.remove(Path(start.directory))
    await until(lambda: len(spare_names(bench)) == 1)
    await until(lambda: bench.containers.names() == [])


@pytest.mark.feature("D3.docker", "D6.watched")
async def test_another_dispatcher_of_the_runner_leaves_it_alone(bench: Bench) -> None:
    """Its sweep could remove the container after an attempt has taken it."""
    dispatcher, other = bench.open(has_spare=True), bench.open(memory_bytes=700 << 20)
    spare = await one_ready(bench, dispatcher)
    await other.place.sweep(list)
    await other.close()
    assert spare_names(bench) == [spare]


@pytest.mark.feature("D3.docker", "D6.watched")
async def test_what_a_killed_runner_had_ready_is_removed_by_the_next_one_and_by_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = await one_ready(bench, bench.open(has_spare=True))  # it is not closed, as if it was killed
    monkeypatch.setattr(Volumes, "spares", set[str]())  # another process knows nothing of it
    await bench.open(key="another runner").place.sweep(list)
    assert spare_names(bench) == [spare]
    await bench.open().place.sweep(list)
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker", "D6.watched")
async def test_what_a_runner_that_never_comes_back_had_ready_is_removed_after_a_day_unless_it_got_a_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner of another name and key cannot know whether its runner is alive, and nobody else removed them."""
    dead, other = bench.open(has_spare=True), bench.open(key="another runner")
    running, start = await one_ready(bench, dead), bench.start(number=2)
    unstarted, ended, used = (f"spare-{digit * 16}" for digit in "abc")
    for name in (unstarted, ended, used):
        configuration = containers.configuration(bench.settings, bench.containers.owner, name, is_spare=True)
        made = await dead.place.daemon.client.containers.create(configuration, name=bench.containers.owner.name(name))
        if name == used:
            await made.put_archive("/terracrew", attempt_files.upload(start, Path(start.directory)))
        if name == ended:
            await made.start()
            await made.kill()
    await other.place.sweep(list)
    assert all(bench.containers.show(name) for name in (unstarted, ended, used)), "their runner may be alive"
    monkeypatch.setattr(volumes, "MIN_ABANDONED_SECONDS", -60.0)
    await other.place.sweep(list)
    assert [bool(bench.containers.show(name)) for name in (unstarted, ended, used)] == [False, False, True]
    assert spare_names(bench) == [running], "one that runs may be given to a job"
    assert len(bench.containers.names()) == 4, "no volume is left without its container"


@pytest.mark.feature("D3.docker", "O4.adopted", "O4.salvaged")
async def test_a_runner_that_starts_again_finds_and_delivers_an_attempt_in_such_a_container(bench: Bench) -> None:
    first = bench.open(has_spare=True)
    spare, start = await one_ready(bench, first), bench.start(number=2)
    directory = Path(start.directory)
    await bench.held(first, start)
    second = bench.open()
    await second.place.sweep(lambda: [directory])
    handle = second.adopt(directory)
    bench.containers.run("kill", "--signal", "KILL", bench.containers.owner.name(spare))
    async with asyncio.timeout(END_SECONDS):
        assert (await second.watch(handle)).code == -9
        salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
        assert (await second.watch(await second.start(salvage))).code == exit_codes.DELIVERED
    assert b"at the gate" in bench.hub.log(Stream.OUTPUT)
    assert delivered.is_done(directory)
    third = bench.open()
    assert (await third.watch(third.adopt(directory))).code == exit_codes.DELIVERED
    await first.close()
    await third.place.remove(directory)
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker", "O4.adopted")
async def test_an_attempt_whose_runner_died_between_the_mark_and_the_upload_has_not_begun(bench: Bench) -> None:
    first = bench.open(has_spare=True)
    spare, start = await one_ready(bench, first), bench.start(number=2)
    directory, shown = Path(start.directory), bench.containers.show(spare)
    assert shown
    containers.write_mark(directory, shown["Id"], spare)
    second = bench.open()
    handle = second.adopt(directory)
    async with asyncio.timeout(END_SECONDS):
        await second.stop(handle, "interrupt")
        with pytest.raises(NotStarted, match="told to end before its job arrived"):
            await second.watch(handle)
    await second.place.remove(directory)
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker", "J9.reported")
async def test_a_cancel_while_the_container_is_taken_leaves_nothing(bench: Bench) -> None:
    socket = CutSocket(bench.address, bench.folder / "socket")
    await socket.open()
    dispatcher = bench.open(host=socket.address, has_spare=True)
    await one_ready(bench, dispatcher)
    await socket.cut()
    start = bench.start(SMALL, 2)
    handle = await dispatcher.start(start)
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(dispatcher.stop(handle, "interrupt"))
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match="canceled before its container was started"):
            await dispatcher.watch(handle)
        await stopping
    await socket.open()
    await dispatcher.close()
    await socket.cut()
    second = bench.open()
    await second.place.remove(Path(start.directory))
    await second.place.sweep(list)
    assert bench.containers.names() == []


@pytest.mark.feature("D3.docker")
async def test_only_one_of_many_attempts_gets_it(bench: Bench) -> None:
    dispatcher = bench.open(has_spare=True)
    spare = await one_ready(bench, dispatcher)
    held = [bench.start(number=number) for number in (2, 3)]
    for start in held:  # nothing of them is looked at but which container they get
        await dispatcher.start(start)
    directories = [Path(start.directory) for start in held]
    await until(lambda: all((each / files.CONTAINER).exists() for each in directories))
    assert sorted(containers.name_of(each) == spare for each in directories) == [False, True]


def test_only_a_mark_of_a_container_names_a_spare(tmp_path: Path) -> None:
    directory = tmp_path / "job_1.1"
    directory.mkdir()
    assert containers.name_of(directory) == "job_1.1"
    for text in ("", "f" * 64, f"{'f' * 64} spare-../../x", f"{'f' * 64} spare-{'0' * 16}\n{'1' * 16}"):
        durable.write(directory / files.CONTAINER, text.encode())
        assert containers.name_of(directory) == "job_1.1"
    containers.write_mark(directory, "f" * 64, f"spare-{'0' * 16}")
    assert containers.name_of(directory) == f"spare-{'0' * 16}"
    assert containers.is_ours(directory)
