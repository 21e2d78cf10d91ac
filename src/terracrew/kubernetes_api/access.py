"""How a process reaches the API server: its address, the authority that it trusts, and its credential."""

import asyncio
import ssl
import time
from pathlib import Path
from typing import Protocol

from terracrew.errors import Invalid

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_FRESH_SECONDS = 60.0
"""How long a token from a file is used before the file is read again. The kubelet renews it long before it expires."""


class AccessError(Exception):
    """There is no credential at the moment. Its message has nothing of a credential."""


class ClusterAccess(Protocol):
    @property
    def server(self) -> str:
        """The address, without a slash at its end."""
        ...

    @property
    def certificate_name(self) -> str | None:
        """The name that the certificate of the API server has; None if it is that of its address."""
        ...

    def tls(self) -> ssl.SSLContext: ...

    async def headers(self) -> dict[str, str]:
        """Return the headers that carry the credential. Raises AccessError."""
        ...

    def forget(self) -> None:
        """Get a new credential the next time, because the API server did not accept this one."""
        ...


class TokenFile:
    """A token in a file that something else renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token, self._read_at = "", 0.0

    async def headers(self) -> dict[str, str]:
        if not self._token or time.monotonic() - self._read_at > _FRESH_SECONDS:
            try:
                text = await asyncio.to_thread(self._path.read_text)
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                raise AccessError(f"the token in {self._path} cannot be read: {reason}") from None
            self._token, self._read_at = text.strip(), time.monotonic()
        return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        self._token = ""


class InCluster:
    """The service account of the pod that this process runs in."""

    certificate_name = None

    def __init__(self, host: str, port: str, folder: Path = SERVICE_ACCOUNT) -> None:
        if not host:
            raise Invalid("KUBERNETES_SERVICE_HOST is not set, so this is not a pod: use AUTH_TYPE=kubeconfig")
        self.server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._folder, self._token = folder, TokenFile(folder / "token")
        self.tls()  # an authority that is missing is a problem of the start

    def tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        except OSError as error:
            raise Invalid(f"{self._folder / 'ca.crt'} cannot be used: {error}") from None

    async def headers(self) -> dict[str, str]:
        return await self._token.headers()

    def forget(self) -> None:
        self._token.forget()


def is_in_cluster(folder: Path = SERVICE_ACCOUNT) -> bool:
    return (folder / "token").exists()
