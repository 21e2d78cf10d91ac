"""Tokens for clouds. There is a file for each audience; it is fetched before a phase starts and renewed while the phase runs."""

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import TerracrewError, Unreachable
from terracrew.executor.delivery.recorder import Recorder
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.engines import engine_user
from terracrew.protocol.spec import Phase, audience_slug

VARIABLE = "TERRACREW_OIDC_TOKEN_FILE"
_FOLDER = "oidc"
_LOOK_SECONDS = 15.0
_AGAIN_SECONDS = 1.0
_MAX_MASKED_TOKENS = 8
"""How many tokens of each audience are masked. They are renewed after half of their lifetime, so an older one has expired long ago."""


class _Token(msgspec.Struct, frozen=True):
    token: str
    expires_in: float


class CloudTokens:
    """The cloud tokens of one attempt. A module without audiences has none."""

    def __init__(
        self, files: EngineDirectory, audiences: Sequence[str], *, transfer: Transfer, recorder: Recorder
    ) -> None:
        self._folder, self._audiences = files.provided / _FOLDER, audiences
        self._transfer, self._recorder = transfer, recorder
        self._phase: Phase | None = None
        self._renew_at = 0.0
        self._masked = deque[str]()

    def __bool__(self) -> bool:
        return bool(self._audiences)

    async def enter(self, phase: Phase) -> None:
        """Fetch new tokens for this phase, and remove those of the other phase."""
        if not self._audiences:
            return
        if phase != self._phase:
            self.clear()
            self._folder.mkdir(mode=0o700)
            self._phase = phase
        if _now() >= self._renew_at:
            await self._fetch(phase)

    def environment(self) -> dict[str, str]:
        """Return the variables that name the token files. The first audience's token also has a variable without its name."""
        if self._phase is None:
            return {}
        files = {f"{VARIABLE}_{audience_slug(each)}": str(self._file(self._phase, each)) for each in self._audiences}
        return {VARIABLE: next(iter(files.values())), **files}

    @asynccontextmanager
    async def renewed(self) -> AsyncGenerator[None]:
        """Renew the tokens in time while the block runs."""
        if self._phase is None:
            yield
            return
        renewing = asyncio.create_task(self._renew(self._phase))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._phase, self._renew_at = None, 0.0

    async def _renew(self, phase: Phase) -> None:
        while True:
            # It sleeps for short times, because a sleep is extended while the machine is suspended and the lifetime of a token is not.
            await asyncio.sleep(max(0.0, min(_LOOK_SECONDS, self._renew_at - _now())))
            if _now() < self._renew_at:
                continue
            try:
                await self._fetch(phase)
            except Unreachable:  # the attempt is stopping, but its engine may still need them
                await asyncio.sleep(_AGAIN_SECONDS)
            except (TerracrewError, OSError) as error:
                self._recorder.say(f"The tokens for the cloud are not renewed any more: {error}")
                return

    async def _fetch(self, phase: Phase) -> None:
        lives: list[float] = []
        asked = _now()
        for audience in self._audiences:
            answer = await self._transfer.post("cloud-token", {"audience": audience, "phase": phase})
            found = msgspec.json.decode(answer.body, type=_Token)
            self._mask(found.token)
            lives.append(found.expires_in)
            _write(self._file(phase, audience), found.token)
        self._renew_at = asked + min(lives) / 2

    def _mask(self, token: str) -> None:
        """Mask a token before the engine can print it."""
        self._recorder.redactor.add(token)
        self._masked.append(token)
        if len(self._masked) > _MAX_MASKED_TOKENS * len(self._audiences):
            self._recorder.redactor.forget(self._masked.popleft())

    def _file(self, phase: Phase, audience: str) -> Path:
        return self._folder / f"{phase}-{audience_slug(audience)}"


def left(directory: Path, files: EngineDirectory) -> list[str]:
    """Return the tokens that a dead executor left, so that they can be masked in what its engine printed.

    Executors of earlier versions kept them in the attempt's directory.
    """
    folders = (directory / _FOLDER, files.provided / _FOLDER)
    return [path.read_text() for folder in folders if folder.is_dir() for path in folder.iterdir()]


def _write(path: Path, token: str) -> None:
    """Replace the file atomically, so that a reader gets either the old or the new token."""
    fresh = path.with_name(f".{path.name}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(token)
    engine_user.let_read(fresh)
    fresh.replace(path)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
