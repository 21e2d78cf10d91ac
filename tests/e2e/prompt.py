"""A prompt: a directory with a configuration, and the real command line of an engine that has our server as its host."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.system import System

HOST = "terracrew.test"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CLOUD = """
terraform {
  cloud {
    hostname     = "terracrew.test"
    organization = "ORGANIZATION"
    workspaces { name = "WORKSPACE" }
  }
}
"""


def plain(text: str) -> str:
    """What was printed, without colours."""
    return _COLOURS.sub("", text)


def flat(text: str) -> str:
    """The words of an error, without its frame and its lines."""
    return " ".join(text.replace("│", " ").split())


@dataclass(frozen=True)
class Ran:
    code: int
    text: str
    """What it printed, without colours."""


class Prompt:
    """Somebody's directory on a machine of their own, which reaches the server by plain HTTP on loopback."""

    def __init__(self, system: System, engine: str, directory: Path, token: str = "") -> None:
        self._system, self._engine, self.directory = system, engine, directory
        directory.mkdir(parents=True, exist_ok=True)
        self._settings = directory.parent / f"{directory.name}.tfrc"
        base = f"{system.url}/api/tfe/v2/"
        services = dict.fromkeys(("tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"), base)
        listed = "\n".join(f'    "{name}" = "{address}"' for name, address in services.items())
        self._settings.write_text(f'host "{HOST}" {{\n  services = {{\n{listed}\n  }}\n}}\n')
        self._settings.chmod(0o600)
        self.token = token or (system.data / "admin.token").read_text().strip()

    def write(self, main: str, workspace: str = "app", organization: str = "default") -> None:
        block = CLOUD.replace("ORGANIZATION", organization).replace("WORKSPACE", workspace)
        (self.directory / "main.tf").write_text(block + main)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "TERRACREW_"))}
        return kept | {
            "TF_CLI_CONFIG_FILE": str(self._settings),
            f"TF_TOKEN_{HOST.replace('.', '_')}": self.token,
            "CHECKPOINT_DISABLE": "1",
            "HOME": str(self.directory),
        }

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self._engine, *arguments],
            cwd=self.directory,
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, answer: str = "", within: float = 90, **environment: str) -> Ran:
        process = self.start(*arguments, **environment)
        try:
            text, _ = process.communicate(answer, timeout=within)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            raise AssertionError(f"{' '.join(arguments)} did not end:\n{text}") from None
        return Ran(process.returncode, plain(text))

    def succeed(self, *arguments: str, answer: str = "", within: float = 90, **environment: str) -> str:
        ran = self.run(*arguments, answer=answer, within=within, **environment)
        assert ran.code == 0, ran.text
        return ran.text

    def outputs(self) -> dict[str, object]:
        return {name: each["value"] for name, each in json.loads(self.succeed("output", "-json")).items()}
