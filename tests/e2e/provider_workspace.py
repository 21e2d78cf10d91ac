"""A folder with a configuration, and a real OpenTofu that has the provider `terracrew`."""

import json
import os
import subprocess

from terracrew import __version__
from terracrew.toolchains import discovery
from tests.e2e.system import System
from tests.machine import providers

MAIN = f"""
terraform {{
  required_providers {{
    terracrew = {{
      source  = "terracrew/terracrew"
      version = "{__version__}"
    }}
  }}
}}
provider "terracrew" {{}}
"""


class Workspace:
    """A folder for one configuration of what a server has, by its administrator."""

    def __init__(self, system: System) -> None:
        self._folder = system.directory / "tree"
        self._folder.mkdir()
        found = discovery.find("tofu")
        assert found is not None
        self._tofu = found.path
        self._env = {
            "HOME": str(system.directory),
            "PATH": os.environ["PATH"],
            "TERRACREW_TOKEN": (system.data / "admin.token").read_text().strip(),
            "TERRACREW_URL": system.url,
            "TF_CLI_CONFIG_FILE": str(providers.configuration(self._folder, providers.own_mirror())),
        }
        self.write()
        self.run("init")

    def write(self, *parts: str) -> None:
        (self._folder / "main.tf").write_text("".join([MAIN, *parts]))

    def run(self, *arguments: str, code: int = 0, **env: str) -> str:
        """Return what a command prints. It has to end with the code."""
        done = subprocess.run(
            [self._tofu, *arguments, "-no-color"],
            cwd=self._folder,
            env=self._env | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return " ".join(done.stdout.replace("│", " ").split())

    def apply(self, *parts: str, code: int = 0, **env: str) -> str:
        self.write(*parts)
        return self.run("apply", "-auto-approve", code=code, **env)

    def is_up_to_date(self, **env: str) -> bool:
        return "No changes." in self.run("plan", "-detailed-exitcode", code=0, **env)

    def state(self) -> str:
        return (self._folder / "terraform.tfstate").read_text()

    def ids(self) -> dict[str, str]:
        shown = json.loads(self.run("show", "-json"))
        return {each["address"]: each["values"]["id"] for each in shown["values"]["root_module"]["resources"]}
