"""The launcher with versions that are small programs: which one it starts, what becomes of signals, and what a kill leaves behind."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terracrew.runner import handover
from terracrew.runner.handover import Launch
from terracrew.runner.updating import installing, start, versions
from terracrew.runner.updating.launcher import SWITCH_EXIT_CODE
from terracrew.system import durable, own_program, procfs
from terracrew.system.durable import AlreadyLockedError

pytestmark = pytest.mark.feature("V3.update")

OLD, NEW = "1.0.0", "1.1.0"
WAIT_SECONDS = 30.0
MAX_MEMORY_BYTES = 16 << 20
START = "import sys; from terracrew.runner.updating import launcher; sys.exit(launcher.main(trial_seconds=float(sys.argv.pop())))"
BEGIN = """
import json, os, signal, sys, time
sys.path.insert(0, {sources!r})
with open(int(sys.argv[2]), "rb") as file:
    file.seek(0)
    given = json.loads(file.read())
def say(text):
    with open({events!r}, "a") as file:
        file.write(f"{version} {{text}}\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: say(signal.Signals(number).name))
say("on trial" if given["is_on_trial"] else "started")
signal.pthread_sigmask(signal.SIG_UNBLOCK, {{signal.SIGHUP}})
from pathlib import Path
from terracrew.runner.updating import versions
folder = Path({folder!r})
def wait(number):
    while not any(number in line for line in open({events!r}) if line.startswith("{version} ")):
        time.sleep(0.01)
"""
STAYS = "wait('SIGTERM'); sys.exit(0)"
CONFIRMS = "versions.confirm(folder, {version!r}, 'it works'); say('confirmed'); wait('SIGTERM'); sys.exit(7)"
CHOOSES = f"versions.choose(folder, {NEW!r}, {OLD!r}, 'upd_1'); sys.exit({SWITCH_EXIT_CODE})"


class Site:
    """A working directory with two versions, and a launcher that is started on it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.folder = directory, versions.folder_of(directory)
        self.events = directory / "events"
        self.processes: list[subprocess.Popen[bytes]] = []

    def put(self, version: str, script: str) -> None:
        package = self.folder / version / own_program.SITE / "terracrew" / "system"
        package.mkdir(parents=True, exist_ok=True)
        sources = str(Path(own_program.__file__).parents[2])
        begin = BEGIN.format(sources=sources, events=str(self.events), version=version, folder=str(self.folder))
        (package / "own_program.py").write_text(begin + script.replace("{version!r}", repr(version)))
        record = {"version": version, "python": versions.python_tag()}
        (self.folder / version / own_program.RECORD).write_text(json.dumps(record))

    def confirmed(self, version: str) -> None:
        versions.choose(self.folder, version, "", "upd_0")
        versions.begin(self.folder)
        assert versions.confirm(self.folder, version, "")

    def start(self, trial_seconds: float = 60.0) -> subprocess.Popen[bytes]:
        lock = durable.acquire_lock(self.directory / "lock")
        launch = handover.offer_launch(Launch(str(self.directory), lock, environment={"TERRACREW_X": "hush-hush"}))
        os.set_inheritable(lock, True)
        command = [sys.executable, "-c", START, str(launch), str(trial_seconds)]
        self.processes.append(subprocess.Popen(command, pass_fds=[lock, launch], start_new_session=True))
        os.close(lock)
        os.close(launch)
        return self.processes[-1]

    def lines(self) -> list[str]:
        return self.events.read_text().splitlines() if self.events.exists() else []

    def wait_for(self, *lines: str) -> None:
        self.until(lambda: self.lines() == list(lines), lines)

    def until(self, is_so: Callable[[], bool], what: object = "") -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < end, (what, self.lines())
            time.sleep(0.01)

    @property
    def is_locked(self) -> bool:
        try:
            os.close(durable.acquire_lock(self.directory / "lock"))
        except AlreadyLockedError:
            return True
        return False

    @property
    def child(self) -> int:
        (child,) = procfs.children(self.processes[-1].pid)
        return child


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.put(OLD, STAYS)
    made.confirmed(OLD)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def test_a_version_that_was_chosen_is_started_on_trial_and_stays_when_it_has_proved_itself(site: Site) -> None:
    site.put(OLD, CHOOSES)
    site.put(NEW, CONFIRMS)
    launcher, trial_seconds, since = site.start(4.0), 4.0, time.monotonic()
    site.wait_for(f"{OLD} started", f"{NEW} on trial", f"{NEW} confirmed")
    assert site.is_locked
    site.until(lambda: time.monotonic() - since > trial_seconds + 1)  # the time of a trial does not matter any more
    launcher.terminate()
    assert launcher.wait(WAIT_SECONDS) == 7
    assert versions.read(site.folder)[:3] == (NEW, OLD, "confirmed")
    site.start()
    first = f"{OLD} started", f"{NEW} on trial", f"{NEW} confirmed", f"{NEW} SIGTERM"
    site.wait_for(*first, f"{NEW} started", f"{NEW} confirmed")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sys.exit(0)", "its process ended with code 0"),
        ("raise RuntimeError('broken')", "its process ended with code 1"),
        ("os.abort()", "its process was ended by signal 6"),
        ("time.sleep(1000)", "it had not said hello and run a job that changes nothing within 2 s"),
        ("versions.give_up(folder, 'this runner has no engine'); sys.exit(1)", "this runner has no engine"),
    ],
)
def test_a_version_that_does_not_prove_itself_is_followed_by_the_old_one(site: Site, script: str, why: str) -> None:
    site.put(NEW, script)
    versions.choose(site.folder, NEW, OLD, "upd_1")
    launcher = site.start(2.0 if "sleep" in script else 60.0)
    site.until(lambda: site.lines()[-1:] == [f"{OLD} started"])
    current = versions.read(site.folder)
    assert (current.status, current.step) == ("given_up", "trial")
    assert why in current.words
    launcher.terminate()
    assert launcher.wait(WAIT_SECONDS) == 0
    site.start()
    site.until(lambda: site.lines()[-3:] == [f"{OLD} started", f"{OLD} SIGTERM", f"{OLD} started"])


@pytest.mark.parametrize("victim", ["launcher", "child"])
def test_a_kill_in_the_trial_leads_back_to_the_old_version(site: Site, victim: str) -> None:
    site.put(NEW, "time.sleep(1000)")
    versions.choose(site.folder, NEW, OLD, "upd_1")
    launcher = site.start()
    site.wait_for(f"{NEW} on trial")
    child = site.child
    os.kill(launcher.pid if victim == "launcher" else child, signal.SIGKILL)
    if victim == "launcher":
        assert launcher.wait(WAIT_SECONDS) == -signal.SIGKILL
        site.until(lambda: not site.is_locked, "nobody holds the lock")
        assert procfs.stat(child) is None or not procfs.stat(child).is_alive  # pyright: ignore[reportOptionalMemberAccess]
        site.start()
    site.wait_for(f"{NEW} on trial", f"{OLD} started")
    why = versions.INTERRUPTED if victim == "launcher" else "its process was ended by signal 9"
    assert why in versions.read(site.folder).words


def test_a_kill_between_the_choice_and_the_start_costs_only_time(site: Site) -> None:
    """The old version has ended to be replaced, and the machine stops at this moment."""
    site.put(
        OLD,
        f"versions.choose(folder, {NEW!r}, {OLD!r}, 'upd_1'); os.kill(os.getppid(), signal.SIGKILL); time.sleep(1000)",
    )
    site.put(NEW, CONFIRMS)
    assert site.start().wait(WAIT_SECONDS) == -signal.SIGKILL
    site.until(lambda: not site.is_locked)
    site.start()
    site.wait_for(f"{OLD} started", f"{NEW} on trial", f"{NEW} confirmed")


def test_the_launcher_ends_as_its_child_does(site: Site) -> None:
    for script, code in (("sys.exit(5)", 5), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)):
        site.put(OLD, script)
        assert site.start().wait(WAIT_SECONDS) == code
        assert not site.is_locked


def test_each_signal_reaches_the_child_once(site: Site) -> None:
    launcher = site.start()
    site.wait_for(f"{OLD} started")
    expected = [f"{OLD} started"]
    for number in (signal.SIGHUP, signal.SIGINT):
        os.killpg(launcher.pid, number)  # as a terminal does: to the whole group
        expected.append(f"{OLD} {number.name}")
        site.wait_for(*expected)
    time.sleep(0.1)
    assert site.lines() == expected
    launcher.terminate()
    assert launcher.wait(WAIT_SECONDS) == 0


def test_a_stop_in_the_trial_ends_the_launcher_and_the_old_version_is_next(site: Site) -> None:
    site.put(NEW, STAYS)
    versions.choose(site.folder, NEW, OLD, "upd_1")
    launcher = site.start()
    site.wait_for(f"{NEW} on trial")
    launcher.terminate()
    assert launcher.wait(WAIT_SECONDS) == 0
    assert "was stopped" in versions.read(site.folder).words
    site.start()
    site.wait_for(f"{NEW} on trial", f"{NEW} SIGTERM", f"{OLD} started")


def test_the_launcher_is_small_and_shows_no_secret(site: Site) -> None:
    launcher = site.start()
    site.wait_for(f"{OLD} started")
    for pid in (launcher.pid, site.child):
        for shown in ("cmdline", "environ"):
            if os.geteuid() == 0:
                assert b"hush-hush" not in Path(f"/proc/{pid}/{shown}").read_bytes()
    resident = int(Path(f"/proc/{launcher.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident < MAX_MEMORY_BYTES
    loaded = subprocess.check_output(
        [sys.executable, "-c", "import sys, terracrew.runner.updating.launcher; print(*sys.modules)"], text=True
    )
    assert not {"msgspec", "pydantic", "asyncio", "click"} & set(loaded.split())


def test_a_version_that_is_not_there_or_is_for_another_python_is_not_started(site: Site) -> None:
    versions.choose(site.folder, "9.9.9", OLD, "upd_1")
    assert versions.begin(site.folder) == (OLD, False)
    assert versions.read(site.folder)[2:] == ("given_up", "upd_1", "switch", versions.REMOVED)
    (site.folder / OLD / own_program.RECORD).write_text('{"python": "cpython-27 linux"}')
    assert versions.begin(site.folder) == ("", False)


def test_a_version_that_people_installed_wins_if_it_is_as_new(site: Site) -> None:
    for installed, expected in (("0.9.0", OLD), ("1.0.0-rc.1", OLD), (OLD, ""), ("1.0.1", "")):
        site.confirmed(OLD)
        start.prefer_environment(site.folder, installed)
        assert versions.begin(site.folder) == (expected, False)


def test_a_version_that_people_installed_wins_over_the_one_before_a_failed_update(site: Site) -> None:
    site.put(NEW, "")
    for installed, expected in (("0.9.0", OLD), (OLD, ""), ("1.0.1", "")):
        for is_begun in (False, True):
            versions.choose(site.folder, NEW, OLD, "upd_1")
            if is_begun:
                versions.begin(site.folder)
                versions.give_up(site.folder, "it ended")
            start.prefer_environment(site.folder, installed)
            if not is_begun:
                assert versions.begin(site.folder) == (NEW, True), "what was chosen is newer than both"
                versions.give_up(site.folder, "it ended")
            assert versions.begin(site.folder) == (expected, False)
            assert versions.read(site.folder).update_id == "upd_1", "the server still learns how the update ended"


def test_a_damaged_record_leads_to_the_version_of_the_environment(site: Site) -> None:
    for text in ("", "[]", '{"status": "odd"}', '{"status": "confirmed", "version": 7}', "\0"):
        (site.folder / "current.json").write_text(text)
        assert versions.begin(site.folder) == ("", False)


def test_a_trial_that_was_given_up_cannot_be_confirmed_any_more(site: Site) -> None:
    versions.choose(site.folder, NEW, OLD, "upd_1")
    site.put(NEW, "")
    assert versions.begin(site.folder) == (NEW, True)
    assert versions.give_up(site.folder, "too slow")
    assert not versions.confirm(site.folder, NEW, "")
    assert not versions.give_up(site.folder, "again")
    assert versions.read(site.folder).words == "too slow"


def test_what_cannot_be_noted_is_not_begun(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full disk, a trial whose begin cannot be written could be started again and again."""
    site.put(NEW, "")
    versions.choose(site.folder, NEW, OLD, "upd_1")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", full)
        assert versions.begin(site.folder) == (OLD, False)
    assert versions.begin(site.folder) == (NEW, True)


def test_only_what_nobody_uses_is_removed(site: Site) -> None:
    site.put(NEW, "")
    site.put("0.9.0", "")
    (site.folder / "fetched").mkdir()
    (site.folder / f".{NEW}.new").mkdir()
    everything = versions.installed(site.folder)
    assert everything == {OLD, NEW, "0.9.0"}
    installing.remove_others(site.folder, everything)  # an executor of any of them may still run
    assert {each.name for each in site.folder.iterdir()} == {*everything, *versions.FILES}
    versions.choose(site.folder, NEW, OLD, "upd_1")
    installing.remove_others(site.folder, versions.kept(versions.read(site.folder)))
    assert versions.installed(site.folder) == {OLD, NEW}
