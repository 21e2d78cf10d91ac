"""How the fleet runner signs in to a cluster: with a token that the server signs, or as the pod that the server runs in."""

import asyncio
import base64
import os
import ssl
import time
from urllib.parse import urlsplit

import msgspec

from terracrew.clouds.contract import CloudRefused, SignToken
from terracrew.clouds.model import KubernetesCluster
from terracrew.errors import Invalid, TerracrewError
from terracrew.kubernetes_api.access import AccessError, ClusterAccess, InCluster

_EARLY_SECONDS = 60.0
"""How long before its end a token is replaced."""
_DEFAULT_LIFETIME_SECONDS = 300.0
_MAX_LIFETIME_SECONDS = 3600.0


class _Expiry(msgspec.Struct):
    exp: float = 0.0


class ClusterToken:
    """A token of the server that exists only in the memory of this process."""

    certificate_name = None

    def __init__(self, cluster: KubernetesCluster, sign: SignToken, *, is_probe: bool = False) -> None:
        """Raises Invalid if the address or the certificate cannot be used. Asks nobody yet."""
        parts = urlsplit(cluster.api_url)
        if parts.scheme != "https" or not parts.hostname or parts.username or parts.query or parts.fragment:
            raise Invalid("the address of the API server must be https:// and a host, without user or query")
        self.server = cluster.api_url.rstrip("/")
        self._authority, self._sign, self._is_probe = cluster.ca_certificate, sign, is_probe
        self._token, self._until = "", 0.0
        self._signing = asyncio.Lock()
        self.tls()

    def tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cadata=self._authority or None)
        except (ssl.SSLError, ValueError):
            raise Invalid("the certificate of the cluster is not a certificate in PEM form") from None

    async def headers(self) -> dict[str, str]:
        async with self._signing:
            if not self._token or time.time() > self._until:
                try:
                    self._token = await self._sign(self._is_probe)
                except TerracrewError as error:
                    raise AccessError(f"the server gives no token: {error.message}") from None
                self._until = time.time() + _lifetime(self._token)
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        self._token = ""

    def __repr__(self) -> str:
        return f"<ClusterToken for {self.server}>"


def _lifetime(token: str) -> float:
    """Return for how many seconds a token is used. Its signature is the business of the API server."""
    try:
        payload = token.split(".")[1]
        end = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Expiry).exp
    except (IndexError, ValueError):
        end = 0.0
    left = end - time.time() if end else _DEFAULT_LIFETIME_SECONDS + _EARLY_SECONDS
    return max(0.0, min(left - _EARLY_SECONDS, _MAX_LIFETIME_SECONDS))


def open_access(cluster: KubernetesCluster, sign: SignToken) -> ClusterAccess:
    """Return the way into a cluster. Raises CloudRefused if its settings cannot be used here."""
    try:
        if cluster.way == "web_identity":
            return ClusterToken(cluster, sign)
        if cluster.api_url:
            raise Invalid("an identity that signs in as the server's own pod has no address of an API server")
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
        if not host:
            raise Invalid(
                "the server does not run in a pod of Kubernetes: choose the way `web_identity`, with the address of the API server"
            )
        return InCluster(host, port)
    except Invalid as error:
        raise CloudRefused(error.message) from None
