"""A Docker daemon of our own. It has its own socket, changes nothing in the machine's network, and keeps its images.

Containers use the network of the machine (`--network host`); so does `docker build`, which has `--network host`, too.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from terracrew.toolchains import cache
from tests.machine.platforms.shared_daemon import SharedDaemon

USUAL_SOCKET = Path("/var/run/docker.sock")
_PROGRAMS = ("docker", "dockerd", "containerd", "runc", "mmdebstrap")
_ANSWER_SECONDS = 20


class Docker:
    def __init__(self, name: str = "docker") -> None:
        """A test that ends its daemon has one with another name."""
        self._folder = cache.root() / "platforms" / name
        # The path of a socket has at most 107 bytes, so it is not in the cache, whose path may be long.
        self._run = Path("/run" if os.access("/run", os.W_OK) else "/tmp") / f"terracrew-test-{name}"
        self._address = f"unix://{self._run}/docker.sock"
        settings = self._folder / "daemon.json"
        self._daemon = SharedDaemon(self._folder, ["dockerd", "--config-file", str(settings)], self._answers)

    def find(self) -> str | None:
        """Return the address of a daemon that answers at `DOCKER_HOST`, or at the usual socket."""
        address = os.environ.get("DOCKER_HOST") or f"unix://{USUAL_SOCKET}"
        if address == f"unix://{USUAL_SOCKET}" and not USUAL_SOCKET.exists():
            return None
        return address if shutil.which("docker") and answers(address) else None

    def missing(self) -> str | None:
        if os.geteuid() != 0:
            return "a daemon of our own needs root"
        absent = [name for name in _PROGRAMS if shutil.which(name) is None]
        return f"{', '.join(absent)} not installed: scripts/platform-packages installs them" if absent else None

    def prepare(self) -> None:
        """There is nothing to build."""

    def join(self) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._run.mkdir(mode=0o700, exist_ok=True)
        self._write_settings()
        self._daemon.join(self._remove_containers)
        return self._address

    def leave(self) -> None:
        self._daemon.leave()

    def restart(self) -> None:
        """End the daemon, which ends its containers, and start it again, as an update of its package does."""
        # The daemon takes a containerd that nobody has reaped for a running one.
        self._daemon.restart(lambda: (self._run / "exec/containerd/containerd.pid").unlink(missing_ok=True))

    def _write_settings(self) -> None:
        settings = {
            "data-root": f"{self._folder}/data",
            "exec-root": f"{self._run}/exec",
            "pidfile": f"{self._run}/docker.pid",
            "hosts": [self._address],
            "bridge": "none",
            "iptables": False,
            "ip-forward": False,
            "host-gateway-ip": "127.0.0.1",
        }
        new = self._folder / f"daemon.json.{os.getpid()}"
        new.write_text(json.dumps(settings, indent=2))
        new.replace(self._folder / "daemon.json")

    def _answers(self) -> bool:
        return answers(self._address)

    def _remove_containers(self) -> None:
        """Remove what a run that was killed left behind. The daemon has just started, so no other run uses it."""
        command = ["docker", "--host", self._address]
        listed = subprocess.run([*command, "ps", "-aq"], check=True, capture_output=True, text=True).stdout.split()
        if listed:
            subprocess.run([*command, "rm", "-f", *listed], check=True, capture_output=True)


def answers(address: str) -> bool:
    command = ["docker", "--host", address, "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(command, capture_output=True, timeout=_ANSWER_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
