"""Writes states of modules at a terminal, under the lock: what `state push`, `state mv` and `state rm` have in common."""

import getpass
import io
import os
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from terracrew.api.locks import ModuleLock, TakeLock
from terracrew.api.states import State
from terracrew.cli.printing import output, progress
from terracrew.client.address import segment
from terracrew.errors import Invalid, TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api

_ENGINE_SECONDS = 300.0
"""How long the engine may take to change a state."""


class _ModuleEngine(msgspec.Struct, frozen=True):
    """What is needed here of a module."""

    engine: str


def push(api: "Api", module: str, content: bytes, *, is_forced: bool) -> State:
    """Write a state under the lock of its module."""
    with _locked(api, module, "state push") as lock_id:
        return _write(api, module, content, lock_id, is_forced=is_forced)


def change(api: "Api", module: str, command: str, words: Sequence[str]) -> State:
    """Change the state of a module with `state COMMAND` of its engine, under the lock."""
    program = _program(api.get(f"/modules/{segment(module)}", _ModuleEngine).engine)
    with _locked(api, module, f"state {command}") as lock_id:
        before = io.BytesIO()
        api.download(f"/modules/{segment(module)}/state", before)
        return _write(api, module, _changed(program, before.getvalue(), command, words), lock_id, is_forced=False)


@contextmanager
def _locked(api: "Api", module: str, operation: str) -> Generator[str]:
    lock_id = str(uuid.uuid4())
    asked = TakeLock(operation=operation, client_lock_id=lock_id, who=_who())
    api.post(f"/modules/{segment(module)}/lock", asked, ModuleLock)
    unlock = f"/modules/{segment(module)}/lock?{urlencode({'id': lock_id})}"
    try:
        yield lock_id
    except BaseException:
        with suppress(TerracrewError):  # the first error says more
            api.delete(unlock)
        raise
    api.delete(unlock)


def _who() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()


def _write(api: "Api", module: str, content: bytes, lock_id: str, *, is_forced: bool) -> State:
    query = {"ID": lock_id} | ({"force": "true"} if is_forced else {})
    with progress.of_bytes() as report:
        return api.upload_in_parts(
            f"/modules/{segment(module)}/state?{urlencode(query)}",
            content,
            "application/json",
            State,
            target="state",
            progress=lambda arrived: report("uploading", arrived, len(content)),
        )


def _program(engine: str) -> str:
    from terracrew.toolchains import discovery

    found = discovery.find(engine)
    if found is None:
        raise Invalid(
            f"{engine}, the engine of this module, is not on this machine, and it has to change the state",
            hint=f"`terracrew engine install {engine}` installs it",
        )
    return found.path


def _changed(program: str, content: bytes, command: str, words: Sequence[str]) -> bytes:
    """Return the state after `state mv` or `state rm` of the engine, which works on a file that only this user can read."""
    with tempfile.TemporaryDirectory(prefix="terracrew-state-") as folder:  # mode 0700
        file = Path(folder) / "terraform.tfstate"
        file.touch(mode=0o600)
        file.write_bytes(content)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        try:
            ended = subprocess.run(
                [program, "state", command, f"-state={file}", f"-backup={file}.before", "--", *words],
                cwd=folder,
                env=environment | {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0"},
                capture_output=True,
                check=False,
                timeout=_ENGINE_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise Invalid(f"`state {command}` of the engine did not end within {_ENGINE_SECONDS:g} seconds") from None
        said = (ended.stdout + ended.stderr).decode(errors="replace").strip()
        if ended.returncode:
            raise Invalid(f"the engine has refused `state {command}`: {said[-1000:]}")
        output.note(said)
        after = file.read_bytes()
    if after == content:
        raise Invalid("the engine has changed nothing, so the state stays as it is")
    return after
