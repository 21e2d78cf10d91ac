"""Where a cluster of the tests has its files, and which addresses it uses. Each number is another cluster."""

import dataclasses
import os
from pathlib import Path

from tests.machine.sqlite_template import memory

MAX_CLUSTERS = 100


@dataclasses.dataclass(frozen=True)
class Places:
    number: int

    @property
    def folder(self) -> Path:
        # The path of a socket has at most 107 bytes, so it is not in the cache, whose path may be long.
        return Path(memory() or "/tmp") / "terracrew-test-kubernetes" / str(self.number)

    @property
    def data(self) -> Path:
        """What is removed when the cluster ends."""
        return self.folder / "data"

    @property
    def logs(self) -> Path:
        """What the processes of the cluster print. It stays until the next start."""
        return self.folder / "logs"

    @property
    def control(self) -> Path:
        """The socket of the process that starts and stops the others. It exists when the cluster is ready."""
        return self.data / "control.sock"

    @property
    def containerd(self) -> Path:
        return self.data / "containerd.sock"

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate that clients of the API server trust."""
        return self.data / "tls.crt"

    @property
    def signing_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.data / "service-accounts.key"

    @property
    def issuers(self) -> Path:
        """The configuration of the issuers whose tokens the API server accepts beside its own. It is read again when it changes."""
        return self.data / "issuers" / "authentication.json"

    @property
    def services(self) -> str:
        return f"10.199.{2 * self.number}.0/24"

    @property
    def pods(self) -> str:
        return f"10.199.{2 * self.number + 1}.0/24"

    @property
    def address(self) -> str:
        """An address of this machine that pods reach, too. It is that of the service `kubernetes`."""
        return f"10.199.{2 * self.number}.1"

    @property
    def url(self) -> str:
        """The API server, and the issuer of the tokens of service accounts."""
        return f"https://{self.address}"

    @property
    def etcd(self) -> str:
        """An address that pods do not reach."""
        return f"127.0.199.{self.number + 1}"

    @property
    def cgroup(self) -> str:
        return f"terracrew-test-kubernetes-{self.number}"

    def cgroups(self) -> list[Path]:
        """The directory of its cgroup in each hierarchy."""
        root = Path("/sys/fs/cgroup")
        if (root / "cgroup.controllers").exists():
            return [root / self.cgroup]
        return [hierarchy / self.cgroup for hierarchy in root.iterdir() if (hierarchy / "cgroup.procs").exists()]

    def is_found(self) -> bool:
        return os.path.exists(self.control)
