"""A runner updates itself with real wheels, and stays at work with the version that it has if the release is no good."""

import asyncio
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from terracrew.errors import Conflict
from terracrew.protocol.messages import Heartbeat, Update, UpdateReport
from terracrew.releases import minisign
from terracrew.runner.updating import versions
from tests.machine import wheels
from tests.runner.updating.conftest import HUP, INSTALLED, KILL, NEW, NEXT, SECRET, TERM, Machine, signed
from tests.thoroughness import thorough

pytestmark = pytest.mark.feature("V3.update")

PACKAGE = Path(versions.__file__).parents[2]
PIECE_BYTES = 200_000


def repacked(wheel: Path, folder: Path, change: Callable[[str], str], name: str = "") -> Path:
    """A copy of a wheel whose metadata says something else."""
    made = folder / (name or wheel.name)
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.infolist():
            content = old.read(each)
            new.writestr(each, change(content.decode()).encode() if each.filename.endswith("/METADATA") else content)
    return made


def small_wheel(folder: Path, name: str, version: str) -> Path:
    made = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD")))
    return made


def offered(machine: Machine, version: str, *paths: Path) -> Update:
    return machine.offer(version, *(signed(path, version) for path in paths), files={path.name: path for path in paths})


async def test_the_new_version_takes_over_in_the_same_working_directory(machine: Machine, tmp_path: Path) -> None:
    """The server goes away in the middle of the fetch, the release needs a package that only itself has, and a second one follows."""
    started, peer = await machine.connected(INSTALLED)
    assert peer.hello.is_self_updating
    further = small_wheel(tmp_path, "carried_along", "1.2")
    wheel = repacked(
        wheels.build(NEW), tmp_path, lambda text: text.replace("\n\n", "\nRequires-Dist: carried-along>=1\n\n", 1)
    )
    machine.hub.cut_after = [PIECE_BYTES, PIECE_BYTES]
    update = offered(machine, NEW, wheel, further)
    new = await machine.updated(peer, update)
    steps = [report.step for report in peer.received(UpdateReport)]
    assert list(dict.fromkeys(steps)) == ["fetch", "verify", "install", "check", "switch"]
    assert [first for name, first in machine.hub.ranges if name == wheel.name] == [0, PIECE_BYTES, 2 * PIECE_BYTES]
    assert (machine.versions / NEW / "site" / "carried_along.py").exists()
    assert (new.hello.instance_key, new.hello.machine) == (peer.hello.instance_key, peer.hello.machine)
    assert machine.current[:4] == (NEW, "", "confirmed", update.update_id)
    while (await new.receive(Heartbeat)).is_draining:
        pass  # it takes jobs from now on

    for pid in (started.pid, started.runner):
        shown = (
            [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")] if os.geteuid() == 0 else []
        )
        assert not any(SECRET.encode() in each or b"PYTHONPATH" in each for each in shown)
    started.signal(HUP)
    await until_logged(machine, "the settings were read again")

    newest = await machine.updated(new, machine.release(NEXT))
    assert machine.current[:3] == (NEXT, NEW, "confirmed")
    second = await machine.start()
    assert await second.ended() == Conflict.exit_code
    assert "another runner" in second.log.read_text()
    waiting = await machine.start("--wait-for-drain", "1m")
    await until_logged(machine, "waiting for up to")
    started.signal(TERM)
    assert await started.ended() == 0
    again = await machine.peer(NEXT)
    assert again.hello.instance_key == newest.hello.instance_key
    assert await waiting.kill() == -KILL


async def test_runners_that_cannot_update_themselves_say_why(machine: Machine) -> None:
    cases: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        (("--once",), {}, "it ends after one job"),
        ((), {"TERRACREW_INSTALLATION": "container terracrew-runner:0.1.0"}, "part of the image of its container"),
    ]
    for arguments, variables, why in cases:
        started = await machine.start(*arguments, **variables)
        peer = await machine.peer(INSTALLED)
        assert not peer.hello.is_self_updating
        assert peer.hello.installation.kind == ("container" if variables else "pip")
        assert f"this runner does not update itself: {why}" in started.log.read_text().replace("its program is ", "")
        await started.kill()


async def until_logged(machine: Machine, text: str) -> None:
    async with asyncio.timeout(60):
        while text not in machine.logs():
            await asyncio.sleep(0.05)


def _bad_releases(machine: Machine, folder: Path) -> Mapping[str, tuple[Callable[[], Update], str, str]]:
    """Releases that must not be installed, each with the step at which that is noticed, and what is said."""
    good, old = wheels.build(NEW), wheels.build(INSTALLED)
    ref = signed(good, NEW)
    folders = {name: folder / name for name in ("python", "lacking", "unmet", "junk", "older")}
    for each in folders.values():
        each.mkdir()
    too_new = repacked(
        good, folders["python"], lambda text: text.replace("Requires-Python: >=3.11", "Requires-Python: >=3.99")
    )
    lacking = repacked(
        good, folders["lacking"], lambda text: text.replace("\n\n", "\nRequires-Dist: not-there>=2\n\n", 1)
    )
    unmet = repacked(good, folders["unmet"], lambda text: text.replace("\n\n", "\nRequires-Dist: msgspec>=99\n\n", 1))
    (junk := folders["junk"] / good.name).write_bytes(b"this is not a wheel")
    (older := folders["older"] / good.name).write_bytes(old.read_bytes())
    runner_settings = (PACKAGE / "settings" / "runner.py").read_text()
    renamed_setting = runner_settings.replace("self_update: bool", "auto_update: bool").replace(
        "self.runner.self_update", "self.runner.auto_update"
    )

    def changed(**fields: str | int) -> Update:
        return machine.offer(NEW, msgspec.structs.replace(ref, **fields), files={good.name: good})

    def only_named(tags: str) -> Update:
        return machine.offer(NEW, msgspec.structs.replace(ref, name=f"terracrew-0.1.0rc2-{tags}.whl"))

    return {
        "another hash": (lambda: changed(sha256="0" * 64), "verify", "has another hash than the release says"),
        "another key": (
            lambda: changed(signature=signed(good, NEW, key=minisign.SecretKey.generate()).signature),
            "verify",
            "was made with key",
        ),
        "changed content": (
            lambda: changed(signature=signed(old, NEW, good.name).signature),
            "verify",
            "does not fit the content",
        ),
        "a signature of an older version": (
            lambda: changed(signature=signed(good, INSTALLED).signature),
            "verify",
            "The signature is for 'terracrew 0.1.0-rc.1 terracrew-0.1.0rc2-py3-none-any.whl'",
        ),
        "an older wheel": (lambda: offered(machine, NEW, older), "verify", "contains terracrew 0.1.0-rc.1"),
        "a downgrade": (
            lambda: machine.offer("0.0.9", signed(old, "0.0.9", "terracrew-0.0.9-py3-none-any.whl")),
            "verify",
            "0.0.9 is not newer",
        ),
        "no version": (lambda: machine.offer("../../etc", ref), "verify", "is not the version of a release"),
        "another platform": (lambda: only_named("py3-none-win_amd64"), "verify", "for this platform and Python"),
        "another Python": (
            lambda: only_named("cp39-cp39-manylinux_2_17_x86_64"),
            "verify",
            "for this platform and Python",
        ),
        "another folder": (lambda: only_named("py3-none-any./../../x"), "verify", "no wheel of terracrew"),
        "a newer Python": (lambda: offered(machine, NEW, too_new), "verify", "needs Python >=3.99"),
        "no wheel": (lambda: machine.offer(NEW), "verify", "the release has no wheel of terracrew"),
        "a missing requirement": (
            lambda: offered(machine, NEW, lacking),
            "verify",
            "needs not-there>=2: it is not installed",
        ),
        "an unmet requirement": (lambda: offered(machine, NEW, unmet), "verify", "needs msgspec>=99: 0."),
        "not a wheel": (lambda: offered(machine, NEW, junk), "verify", "is not a wheel"),
        "no disk": (lambda: changed(size_bytes=1 << 60), "fetch", "MB left"),
        "not there": (lambda: only_named("1-py3-none-any"), "fetch", "no such file"),
        "a crash": (
            lambda: machine.release(NEW, {"runner/main.py": "raise RuntimeError('torn')"}),
            "check",
            "RuntimeError: torn",
        ),
        "refused settings": (
            lambda: machine.release(NEW, {"settings/runner.py": renamed_setting}),
            "check",
            "TERRACREW_RUNNER__SELF_UPDATE",
        ),
    }


@thorough
async def test_whatever_is_wrong_with_a_release_the_runner_stays_at_work(machine: Machine, tmp_path: Path) -> None:
    started, peer = await machine.connected(INSTALLED)
    runner = started.runner
    for name, (offer, step, words) in _bad_releases(machine, tmp_path).items():
        await peer.send(update := offer())
        report = await machine.outcome(peer, update)
        assert (report.status, report.step) == ("failed", step), (name, report, machine.logs())
        assert words in report.words, (name, report)
        assert SECRET not in report.words
        await peer.send(update)
        assert await machine.outcome(peer, update) == report, name  # it says so again, and does not try again
    assert started.runner == runner
    while (await peer.receive(Heartbeat)).is_draining:
        pass
    assert {each.name for each in machine.versions.iterdir()} <= {"current.json", "lock"}


_BROKEN = 'async def run(*_, **__):\n    raise RuntimeError("this is broken")\n'


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param(
            {"runner/__main__.py": "raise SystemExit(0)"},
            "its process ended with code 0 before it had said hello",
            id="ends",
            marks=thorough,
        ),
        pytest.param({"runner/main.py": _BROKEN}, "RuntimeError: this is broken (main.py, line 2)", id="fails"),
    ],
)
async def test_a_release_that_does_not_run_is_followed_by_the_old_version_which_says_why(
    machine: Machine, changed: dict[str, str], words: str
) -> None:
    """What passes every check, and then does not say hello."""
    started, peer = await machine.connected(INSTALLED)
    update = machine.release(NEW, changed)
    await peer.send(update)
    again = await machine.peer(INSTALLED)
    await again.send(update)
    report = await machine.outcome(again, update)
    assert (report.status, report.step) == ("failed", "trial")
    assert words in report.words
    while (await again.receive(Heartbeat)).is_draining:
        pass
    started.signal(TERM)
    assert await started.ended() == 0
