"""A real provider for jobs of one module, and the shared cache of the runner that they run on."""

import os
import subprocess
from pathlib import Path

from terracrew.executor.engines.contract import DownloadContext
from terracrew.executor.engines.hcl import lockfile, plugins, provider_download
from terracrew.executor.engines.hcl.lockfile import Provider
from terracrew.toolchains import discovery
from tests.executor.warm_runs import WarmRunner
from tests.machine import providers

TIME = {"main.tf": providers.required("time") + 'resource "time_static" "it" {}\n'}


def program(engine: str) -> str:
    found = discovery.find(engine)
    assert found
    return found.path


def locked(runner: WarmRunner, engine: str, files: dict[str, str]) -> dict[str, str]:
    """The files, with the lock file that an `init` at a prompt makes."""
    folder = runner.folder / "at-a-prompt"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    command = [program(engine), "init", "-input=false"]
    subprocess.run(command, cwd=folder, env=os.environ | runner.environment, check=True, capture_output=True)
    return files | {lockfile.NAME: (folder / lockfile.NAME).read_text()}


async def fill_cache(runner: WarmRunner, engine: str) -> Path:
    """What the runner does after a job: it downloads the provider. Returns the package."""
    host = "registry.opentofu.org" if engine == "tofu" else "registry.terraform.io"
    provider = Provider(f"{host}/hashicorp/time", "0.13.1")
    context = DownloadContext(runner.cache, os.environ | runner.environment, [])
    assert await provider_download.download(engine, provider.folder, context)
    return plugins.shared_cache(runner.cache) / provider.folder / plugins.platform()
