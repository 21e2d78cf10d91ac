"""Opens the account of an identity by its kind. The package of a cloud is imported when its first identity is used."""

from collections.abc import Callable
from importlib import import_module

from terracrew.clouds.contract import Cloud, OpenCloud, SignToken
from terracrew.clouds.model import CloudIdentity, CloudKind
from terracrew.errors import Invalid

_CLASSES: dict[CloudKind, tuple[str, str]] = {
    "aws": ("terracrew.clouds.aws.cloud", "AwsCloud"),
    "kubernetes": ("terracrew.clouds.kubernetes.cloud", "KubernetesCloud"),
}


def open_cloud(identity: CloudIdentity, sign_token: SignToken) -> Cloud:
    module, name = _CLASSES[identity.kind]
    try:
        opened: Callable[[CloudIdentity, SignToken], Cloud] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise Invalid(
            f"the server cannot use an identity of the kind {identity.kind}: the Python package {error.name} is missing"
        ) from error
    return opened(identity, sign_token)


class OpenClouds:
    """The accounts that are open, by identity. One that was changed is another one. Those that were not used for long are closed."""

    def __init__(self, open_one: OpenCloud, sign: Callable[[CloudIdentity], SignToken], max_open: int = 64) -> None:
        self._open_one, self._sign, self._max_open = open_one, sign, max_open
        self._open: dict[CloudIdentity, Cloud] = {}
        self._users: dict[CloudIdentity, int] = {}

    async def take(self, identity: CloudIdentity) -> Cloud:
        """Return the cloud of an identity; the caller gives it back."""
        if identity not in self._open:
            self._open[identity] = self._open_one(identity, self._sign(identity))
        self._users[identity] = self._users.get(identity, 0) + 1
        cloud = self._open.pop(identity)
        self._open[identity] = cloud  # the last one in the order is the one that was used last
        return cloud

    async def give_back(self, identity: CloudIdentity) -> None:
        self._users[identity] -= 1
        if not self._users[identity]:
            del self._users[identity]
        unused = [each for each in self._open if each not in self._users]
        for each in unused[: max(0, len(self._open) - self._max_open)]:
            await self._open.pop(each).close()
