"""A real ssh server on loopback, with a host key of its own and one key that may log in as the user of the test."""

import contextlib
import getpass
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

from tests.e2e.system import eventually, free_port
from tests.machine.needs import need

_CONFIGURATION = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
PidFile none
"""


class GitSsh:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.user = getpass.getuser()
        self.known_hosts = folder / "known_hosts"
        kind, key = (folder / "host.pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")

    def of(self, repository: Path) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{repository}"

    @property
    def key(self) -> Path:
        return self.folder / "user"

    def command(self, *options: str) -> str:
        """What the operator of a runner could set: the known hosts of a file, and not the keys of the person who runs the test."""
        quiet = "-oBatchMode=yes -oIdentitiesOnly=no -oLogLevel=ERROR -F /dev/null"
        return f"ssh {quiet} -oUserKnownHostsFile={self.known_hosts} {' '.join(options)}"


@contextlib.contextmanager
def running(folder: Path) -> Generator[GitSsh]:
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    need(None if program else "no sshd here")
    assert program is not None
    folder.mkdir(parents=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    port = free_port()
    (folder / "sshd_config").write_text(_CONFIGURATION.format(port=port, folder=folder))
    with open(folder / "sshd.log", "wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    try:
        eventually(lambda: b"Server listening" in (folder / "sshd.log").read_bytes())
        yield GitSsh(folder, port)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def agent(key: Path) -> Generator[str]:
    """An ssh agent that has this key. Yields the path of its socket."""
    socket = key.with_name("agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        eventually(socket.exists)
        subprocess.run(["ssh-add", "-q", str(key)], env=os.environ | {"SSH_AUTH_SOCK": str(socket)}, check=True)
        yield str(socket)
    finally:
        process.terminate()
        process.wait()
