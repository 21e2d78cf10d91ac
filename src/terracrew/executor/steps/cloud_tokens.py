"""Tokens for clouds. There is a file for each audience and for each cloud login of the job.

A file is fetched before a phase starts and renewed while the phase runs."""

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import EngineDirectory, read_produced
from terracrew.errors import TerracrewError, Unreachable
from terracrew.executor.delivery.recorder import Recorder
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.engines import engine_user
from terracrew.executor.steps import cloud_variables
from terracrew.protocol.cloud import CloudName, Phase
from terracrew.protocol.spec import JobSpec, audience_slug

VARIABLE = "TERRACREW_OIDC_TOKEN_FILE"
_FOLDER = "oidc"
_ACCOUNT_FILE = "google-account.json"
_LOOK_SECONDS = 15.0
_AGAIN_SECONDS = 1.0
_MAX_TOKEN_BYTES = 1 << 20
_MAX_MASKED_TOKENS = 8
"""How many tokens of each audience are masked. They are renewed after half of their lifetime, so an older one has expired long ago."""


class _Token(msgspec.Struct, frozen=True):
    token: str
    expires_in: float


class CloudTokens:
    """The cloud tokens of one attempt. A module without audiences and cloud logins has none."""

    def __init__(self, files: EngineDirectory, spec: JobSpec, *, transfer: Transfer, recorder: Recorder) -> None:
        self._folder, self._account_file = files.provided / _FOLDER, files.provided / _ACCOUNT_FILE
        self._audiences: Sequence[str] = spec.oidc_audiences
        self._clouds, self._number = spec.cloud, spec.number
        self._given = {*spec.environment, *(each.name for each in spec.definitions if each.target == "environment")}
        self._wanted = {audience_slug(each): each for each in self._audiences}
        """The audiences, by the names of their files. A file of a cloud login has lower-case letters, so no other has its name."""
        self._wanted |= {f"cloud-{name}": each for name, each in spec.cloud.audiences().items()}
        self._transfer, self._recorder = transfer, recorder
        self._phase: Phase | None = None
        self._renew_at = 0.0
        self._masked = deque[str]()

    def __bool__(self) -> bool:
        return bool(self._wanted)

    async def enter(self, phase: Phase) -> None:
        """Fetch new tokens for this phase, and remove those of the other phase."""
        if not self._wanted:
            return
        if phase != self._phase:
            self.clear()
            self._folder.mkdir(mode=0o700)
            self._phase = phase
        if _now() >= self._renew_at:
            await self._fetch(phase)

    def environment(self, given: Collection[str] | None = None) -> dict[str, str]:
        """Return the variables that name the token files, and those of the cloud logins. The first audience's token also has a
        variable without its name. What the environment of the job sets is not replaced; for a hook of a group, this is what
        `given` names."""
        if self._phase is None:
            return {}
        phase = self._phase
        files = {
            f"{VARIABLE}_{(slug := audience_slug(each))}": str(self._file(phase, slug)) for each in self._audiences
        }
        first = {VARIABLE: next(iter(files.values()))} if files else {}
        identities = {
            name: value
            for name, value in self._identities(phase).items()
            if name not in (self._given if given is None else given)
        }
        return first | files | identities

    def _identities(self, phase: Phase) -> dict[str, str]:
        clouds, job = self._clouds, self._job(phase)
        found: dict[str, str] = {}
        if clouds.aws:
            found |= cloud_variables.of_aws(clouds.aws, job)
        if clouds.azure:
            found |= cloud_variables.of_azure(clouds.azure, job)
        if clouds.gcp:
            found |= cloud_variables.of_gcp(clouds.gcp, self._account_file)
        if clouds.vault:
            found |= cloud_variables.of_vault(clouds.vault, job, job.tokens["vault"].read_text())
        return found

    def _job(self, phase: Phase) -> cloud_variables.CloudJob:
        tokens: dict[CloudName, Path] = {name: self._file(phase, f"cloud-{name}") for name in self._clouds.audiences()}
        return cloud_variables.CloudJob(phase, self._number, tokens)

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
        self._account_file.unlink(missing_ok=True)
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
        for name, audience in self._wanted.items():
            answer = await self._transfer.post("cloud-token", {"audience": audience, "phase": phase})
            found = msgspec.json.decode(answer.body, type=_Token)
            self._mask(found.token)
            lives.append(found.expires_in)
            _write(self._file(phase, name), found.token)
        if self._clouds.gcp:
            _write(self._account_file, cloud_variables.external_account(self._clouds.gcp, self._job(phase)))
        self._renew_at = asked + min(lives) / 2

    def _mask(self, token: str) -> None:
        """Mask a token before the engine can print it."""
        self._recorder.redactor.add(token)
        self._masked.append(token)
        if len(self._masked) > _MAX_MASKED_TOKENS * len(self._wanted):
            self._recorder.redactor.forget(self._masked.popleft())

    def _file(self, phase: Phase, name: str) -> Path:
        return self._folder / f"{phase}-{name}"


def left(files: EngineDirectory) -> list[str]:
    """Return the tokens that a dead executor left, so that they can be masked in what its engine printed."""
    folder = files.provided / _FOLDER
    paths = [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    return [read_produced(path, _MAX_TOKEN_BYTES).decode(errors="replace") for path in paths if not path.is_symlink()]


def _write(path: Path, content: str) -> None:
    """Replace the file atomically, so that a reader gets either the old or the new content."""
    fresh = path.with_name(f".{path.name}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(content)
    engine_user.let_read(fresh)
    fresh.replace(path)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
