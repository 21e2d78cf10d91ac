"""The launcher: the main process of a runner that updates itself. It starts the runner as its child, in the version that is due.

It stays while versions come and go, so that a new version that crashes, hangs or does not say hello is followed by the old one. It
keeps the lock of the working directory, which its children inherit: no other runner can take the directory between two versions. It
passes signals on, and ends as its child ends. It needs only the standard library, and holds no secret in its environment.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from terracrew.runner.updating import versions
from terracrew.runner.updating.versions import NextStart
from terracrew.system import own_program, procfs

TRIAL_SECONDS = 60.0
"""How long a new version has to say hello to the server and to prove that it can run jobs."""
SWITCH_EXIT_CODE = 80
"""With this code a runner ends that wants the version that it has chosen to be started."""
START_MODULE = "terracrew.settings.launched"
"""What a version is started by. Every version has it: an older launcher starts a newer one."""
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS = 0.5
"""How often the launcher looks whether a trial is over."""
_IDLE_SECONDS = 3600.0
"""How long it waits for signals otherwise."""


class Launcher:
    def __init__(self, given: dict[str, Any], trial_seconds: float = TRIAL_SECONDS) -> None:
        """`given` is what a version needs to read its settings: `handover.Launch` as JSON, of which this only reads two fields."""
        self._given, self._trial_seconds = given, trial_seconds
        self._folder = versions.folder_of(Path(given["working_directory"]))
        self._lock: int = given["lock"]
        self._is_stopping = False

    def run(self) -> int:
        """Start one version after the other. Returns how the last one ended."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
        while True:
            start = versions.begin(self._folder)
            code = self._watch(self._start(start), start)
            if start.is_on_trial:
                self._give_up(self._why(code))
            status = versions.read(self._folder).status
            has_failed = start.is_on_trial and status in ("trial", "given_up")
            is_switching = code == SWITCH_EXIT_CODE and status == "chosen"
            if self._is_stopping or not (has_failed or is_switching):
                return 0 if is_switching else code

    def _start(self, start: NextStart) -> int:
        overlay = str(self._folder / start.version) if start.version else None
        settings = self._offer(start)
        arguments = own_program.command_in(overlay, START_MODULE, str(settings))
        _say(f"starting {start.version or 'the installed version'}{' on trial' if start.is_on_trial else ''}")
        launcher = os.getpid()
        if (child := os.fork()) == 0:
            _become(arguments, launcher, (settings, self._lock))
        os.close(settings)
        return child

    def _offer(self, start: NextStart) -> int:
        """Write what the version needs to a file without a path. Parts of it are secret."""
        descriptor = os.memfd_create("launch", os.MFD_CLOEXEC)
        content = memoryview(json.dumps({**self._given, "is_on_trial": start.is_on_trial}).encode())
        while content:
            content = content[os.write(descriptor, content) :]
        return descriptor

    def _watch(self, child: int, start: NextStart) -> int:
        """Pass signals on until the child has ended. A version that is too slow to prove itself is killed."""
        until = time.monotonic() + self._trial_seconds if start.is_on_trial else None
        while True:
            received = signal.sigtimedwait(
                {*_FORWARDED, signal.SIGCHLD}, _IDLE_SECONDS if until is None else _LOOK_SECONDS
            )
            if received is not None and received.si_signo != signal.SIGCHLD:
                self._is_stopping |= received.si_signo != signal.SIGHUP
                os.kill(child, received.si_signo)
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if until is None:
                continue
            if self._is_stopping or versions.read(self._folder).status == "confirmed":
                until = None  # one that is stopped ends when its jobs have ended, like any other
            elif time.monotonic() >= until:
                # Its trial is over before it is killed, so it cannot be confirmed. Its executors do not depend on it.
                if self._give_up(
                    f"it had not said hello and run a job that changes nothing within {self._trial_seconds:g} s"
                ):
                    os.kill(child, signal.SIGKILL)
                until = None

    def _give_up(self, words: str) -> bool:
        try:
            return versions.give_up(self._folder, words)
        except OSError as error:  # the disk is full; the next start gives a version up that it finds on trial
            _say(f"it cannot be noted that {words}: {error}")
            return True

    def _why(self, code: int) -> str:
        if self._is_stopping:
            return "the runner was stopped while this version was on trial"
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"its process {how} before it had said hello and run a job that changes nothing; the log of the runner says more"


def _become(arguments: list[str], launcher: int, inherited: tuple[int, ...]) -> NoReturn:
    """Become the child: in a process group of its own, so that Ctrl-C in a terminal reaches it once, and never without its launcher."""
    code = 1
    try:
        procfs.die_with_parent()
        os.setpgid(0, 0)
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        # SIGHUP waits until the runner can react to it: it would end the process before.
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGHUP})
        if os.getppid() == launcher:
            os.execv(arguments[0], arguments)  # noqa: S606
    finally:
        os._exit(code)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"terracrew.runner.updating: {text}", flush=True)


def _end_like(code: int) -> int:
    """End as the child did: a signal that ended it ends this process, too."""
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    return code if code >= 0 else 128 - code


def main(trial_seconds: float = TRIAL_SECONDS) -> int:
    procfs.forbid_inspection()
    with open(int(sys.argv[1]), "rb") as file:
        file.seek(0)
        given = json.loads(file.read())
    os.set_inheritable(given["lock"], False)
    return _end_like(Launcher(given, trial_seconds).run())


if __name__ == "__main__":
    sys.exit(main())
