"""Reaches a cluster of EKS with the runner's AWS identity: the token is a request to STS that the API server sends for us.

boto3 has no asynchronous calls, so it is used in threads, and imported only here.
"""

import asyncio
import base64
import ssl
import time
from typing import Any

from terracrew.errors import Invalid
from terracrew.kubernetes_api.access import AccessError

_PRESIGNED_SECONDS = 60
"""What EKS asks for. The token itself is valid for 15 minutes."""
RENEW_SECONDS = 600.0
_PREFIX = "k8s-aws-v1."
_CLUSTER_HEADER = "x-k8s-aws-id"


class Eks:
    certificate_name = None

    def __init__(self, cluster: str, region: str) -> None:
        """Raises Invalid if the library is missing. Asks nobody yet."""
        try:
            import boto3  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            raise Invalid("AUTH_TYPE=eks_iam needs the extra `aws`: pip install 'terracrew[aws]'") from None
        self._boto3: Any = boto3
        self._cluster, self._region = cluster, region
        self._address, self._authority = "", b""
        self._token, self._until = "", 0.0
        self._asking = asyncio.Lock()

    @property
    def server(self) -> str:
        return self._address

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._authority.decode())

    async def headers(self) -> dict[str, str]:
        async with self._asking:
            try:
                if not self._address:
                    self._address, self._authority = await asyncio.to_thread(self._describe)
                if not self._token or time.monotonic() > self._until:
                    self._token = await asyncio.to_thread(self.token)
                    self._until = time.monotonic() + RENEW_SECONDS
            except Exception as error:  # boto3 raises classes that it makes at run time
                raise AccessError(f"AWS gives no access to the EKS cluster {self._cluster}: {error}") from None
        return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        self._token = ""

    def _describe(self) -> tuple[str, bytes]:
        client = self._session().client("eks")
        cluster: dict[str, Any] = client.describe_cluster(name=self._cluster)["cluster"]
        authority = base64.b64decode(cluster["certificateAuthority"]["data"])
        return str(cluster["endpoint"]).rstrip("/"), authority

    def token(self) -> str:
        """Return a request to STS that says who we are, signed for this cluster."""
        client = self._session().client("sts")
        events: Any = client.meta.events
        events.register("before-sign.sts.GetCallerIdentity", self._name_cluster)
        url: str = client.generate_presigned_url("get_caller_identity", ExpiresIn=_PRESIGNED_SECONDS, HttpMethod="GET")
        return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")

    def _name_cluster(self, request: Any, **_: Any) -> None:
        request.headers[_CLUSTER_HEADER] = self._cluster

    def _session(self) -> Any:
        return self._boto3.Session(region_name=self._region)
