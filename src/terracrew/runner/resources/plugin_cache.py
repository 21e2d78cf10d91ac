"""Fills the shared cache of provider plug-ins: the runner downloads again what an attempt had to download.

A module could have put anything into its own cache under any provider's name. So the runner takes none of it: it has the
engine download the same version again, for a configuration that names nothing else, with the operator's own settings. The
engine checks it as it always does.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from terracrew.executor.engines.tofu import plugins
from terracrew.executor.engines.tofu.lockfile import Provider
from terracrew.toolchains import discovery

log = logging.getLogger(__name__)

MAX_WAITING = 100
_DOWNLOAD_SECONDS = 900.0
_RETRY_SECONDS = 3600.0
_CONFIGURATION = """terraform {{
  required_providers {{
    wanted = {{ source = "{source}", version = "= {version}" }}
  }}
}}
"""


class PluginCache:
    def __init__(self, root: Path, environment: Mapping[str, str], engine_paths: list[str]) -> None:
        self.shared, self._partial = root / "plugins", root / "partial"
        self._environment, self._engine_paths = dict(environment), engine_paths
        self._queue: asyncio.Queue[Provider] = asyncio.Queue(MAX_WAITING)
        self._tried_at: dict[Provider, float] = {}

    def want(self, providers: Iterable[Provider]) -> None:
        """Queue these for download. One that failed is tried again after an hour, if an attempt uses it again."""
        for provider in providers:
            if time.monotonic() - self._tried_at.get(provider, -_RETRY_SECONDS) >= _RETRY_SECONDS:
                with contextlib.suppress(asyncio.QueueFull):  # the next attempt that uses it asks again
                    self._queue.put_nowait(provider)
                    self._tried_at[provider] = time.monotonic()

    async def run(self) -> None:
        while True:
            provider = await self._queue.get()
            try:
                await self.get(provider)
            except (OSError, TimeoutError) as error:
                log.warning("%s cannot be kept for other jobs: %s", provider.folder, error)
            except Exception:  # it would end the whole runner, and the cache only saves downloads
                log.exception("%s cannot be kept for other jobs", provider.folder)

    async def get(self, provider: Provider) -> None:
        if plugins.has(self.shared, provider) or not (engine := discovery.find("tofu", self._engine_paths)):
            return
        self._partial.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._partial))
        try:
            source, version = provider.address, provider.version
            (folder / "main.tf").write_text(_CONFIGURATION.format(source=source, version=version))
            await self._download(engine.path, folder)
            await asyncio.to_thread(self._admit, provider, folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        log.info("%s is kept for other jobs", provider.folder)

    async def _download(self, program: str, folder: Path) -> None:
        environment = {**self._environment, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
        environment.pop("TF_DATA_DIR", None)
        process = await asyncio.create_subprocess_exec(
            program,
            "init",
            "-backend=false",
            "-input=false",
            "-no-color",
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_DOWNLOAD_SECONDS):
                _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise OSError(f"`tofu init` failed: {said.decode(errors='replace').strip()[-500:]}")

    def _admit(self, provider: Provider, folder: Path) -> None:
        """Move the package into the cache. Its checksum is written last, so a package with a checksum is complete."""
        found = folder / ".terraform" / "providers" / provider.folder / plugins.platform()
        target = self.shared / provider.folder / plugins.platform()
        target.parent.mkdir(parents=True, exist_ok=True)
        package = folder / "package"
        shutil.copytree(
            os.path.realpath(found), package
        )  # a link where the operator has a cache or a mirror of directories
        if os.path.lexists(target):  # an earlier version of Terracrew let jobs write here
            target.rename(folder / "replaced")
        package.rename(target)
        draft = folder / "checksum"
        draft.write_text(plugins.checksum(target))
        draft.rename(plugins.checksum_file(self.shared, provider))
