"""Builds the provider for OpenTofu and Terraform into build/provider, laid out as a file-system mirror (`make provider`)."""

import shutil
import tempfile
from pathlib import Path

import version as versions
from provider_docs import ADDRESS, configuration
from steps import step

from terracrew.toolchains import cache, go_toolchain, program

ROOT = Path(__file__).parents[1]
REGISTRIES = ("registry.opentofu.org", "registry.terraform.io")
GO_VERSION = "1.25.0"


def build(root: Path, made: Path) -> None:
    """Build the provider for this machine and put it where OpenTofu and Terraform look for it in a mirror."""
    version, platform = versions.current(root), "_".join(cache.system())
    name = f"terraform-provider-terracrew_v{version}"
    with tempfile.TemporaryDirectory() as folder:
        go = go_toolchain.get(GO_VERSION, Path(folder), lambda _: None)
        flags = f"-s -w -X main.version={version}"
        command = [go.path, "build", "-trimpath", "-ldflags", flags, "-o", f"{folder}/{name}", "."]
        program.run(command, cwd=root / "provider", env=go.env, on_tick=lambda: None)
        for registry in REGISTRIES:
            target = made / registry / ADDRESS / version / platform
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder) / name, target / name)


if __name__ == "__main__":
    with step("provider"):
        build(ROOT, ROOT / "build" / "provider")
    print(
        f"# for the configuration file of OpenTofu or Terraform:\n{configuration(ROOT / 'build' / 'provider')}", end=""
    )
