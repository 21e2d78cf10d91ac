"""Downloads a provider plug-in into the cache that attempts share, for the runner.

A module could have put anything into its own cache under any provider's name. So the engine downloads the same version again,
for a configuration that names nothing else, with the operator's own settings, and checks it as it always does.
"""

import asyncio
import logging
import os
import shutil
import tempfile
from pathlib import Path

from terracrew.errors import Invalid, ProgramFailed
from terracrew.executor.engines.contract import DownloadContext
from terracrew.executor.engines.hcl import lockfile, plugins
from terracrew.executor.engines.hcl.lockfile import Provider
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds
from terracrew.toolchains import discovery

log = logging.getLogger(__name__)

_DOWNLOAD_SECONDS = 900.0
_MAX_PRINTED_BYTES = 1 << 20
_CONFIGURATION = """terraform {{
  required_providers {{
    wanted = {{ source = "{source}", version = "= {version}" }}
  }}
}}
"""


async def download(engine_name: str, item: str, context: DownloadContext) -> bool:
    """Return whether the package is new in the cache. Raises Invalid or OSError if the download fails.

    An attempt that did not use a package of the cache asks for it, too, because the package may be damaged.
    """
    provider = lockfile.provider_of(item)
    if provider is None:
        raise Invalid(f"{item!r} is not the folder of a provider")
    shared, partial = plugins.shared_cache(context.cache_directory), context.cache_directory / "partial"
    if plugins.has(shared, provider):
        if await asyncio.to_thread(plugins.is_intact, shared, provider):
            return False
        log.warning("%s is damaged in the cache of downloads, and is downloaded again", item)
        await asyncio.to_thread(plugins.drop, shared, provider)
    if not (engine := discovery.find(engine_name, context.engine_paths)):
        return False
    partial.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=partial))
    try:
        (folder / "main.tf").write_text(_CONFIGURATION.format(source=provider.address, version=provider.version))
        await _init(engine.path, folder, context)
        await asyncio.to_thread(_admit, provider, folder, shared)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return True


async def _init(program: str, folder: Path, context: DownloadContext) -> None:
    environment = {**context.environment, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
    environment.pop("TF_DATA_DIR", None)
    try:
        await bounded_program.run(
            [program, f"-chdir={folder}", "init", "-backend=false", "-input=false", "-no-color"],
            purpose="the download with",
            bounds=ProgramBounds(_DOWNLOAD_SECONDS, _MAX_PRINTED_BYTES),
            environment=environment,
        )
    except ProgramFailed as error:
        raise OSError(error.message) from None


def _admit(provider: Provider, folder: Path, shared: Path) -> None:
    """Move the package into the cache. Its checksum is written last, so a package with a checksum is complete."""
    found = folder / ".terraform" / "providers" / provider.folder / plugins.platform()
    target = shared / provider.folder / plugins.platform()
    target.parent.mkdir(parents=True, exist_ok=True)
    package = folder / "package"
    # It is a link if the operator has a cache or a mirror of directories.
    shutil.copytree(os.path.realpath(found), package)
    if os.path.lexists(target):  # a package without a checksum is not complete
        target.rename(folder / "replaced")
    package.rename(target)
    draft = folder / "checksum"
    draft.write_text(plugins.checksum(target))
    draft.rename(plugins.checksum_file(shared, provider))
