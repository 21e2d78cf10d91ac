"""What the pages of the server show, and how they read it."""

from typing import Any

import msgspec

from terracrew.api.job_views import Hold
from terracrew.api.operations import IssuerView, RekeyProgress, RetentionPolicy
from terracrew.server.dashboard.badges import Badge
from terracrew.server.db.seam import Tx
from terracrew.server.history import store as holds
from terracrew.server.principals.model import Principal
from terracrew.server.rekey import requests as rekeying
from terracrew.wording import retention_words

_BADGES = {
    "none": Badge("idle", "slash", "Never changed"),
    "running": Badge("busy", "arc", "Running"),
    "stopped": Badge("warn", "half", "Stopped"),
    "incomplete": Badge("bad", "cross", "Incomplete"),
    "finished": Badge("ok", "tick", "Finished"),
}
_OLDER = Badge("warn", "mark", "Older key in use")
_STARTS = {"none": "Encrypt everything again", "finished": "Check everything again"}


class ServerPage(msgspec.Struct, frozen=True):
    hold: Hold | None
    rekey: RekeyProgress
    key_id: str
    """The master key that this server encrypts under."""

    @property
    def is_other_key(self) -> bool:
        """Return whether the last encryption was under another key than the one that the server has now."""
        return self.rekey.key_id not in ("", self.key_id)

    @property
    def is_running(self) -> bool:
        return self.rekey.status == "running"

    @property
    def badge(self) -> Badge:
        return _OLDER if self.is_other_key and not self.is_running else _BADGES[self.rekey.status]

    @property
    def start(self) -> str:
        """Return what the button says that starts the encryption."""
        return _STARTS["none"] if self.is_other_key else _STARTS.get(self.rekey.status, "Continue")


class IssuerDocument(msgspec.Struct, frozen=True):
    """A file that clouds read."""

    id: str
    path: str
    text: str


async def read(tx: Tx, who: Principal, key_id: str) -> ServerPage:
    progress = await rekeying.show(tx, who)
    return ServerPage(await holds.open_hold(tx), progress, key_id)


def kept(policy: RetentionPolicy) -> dict[str, str]:
    """Return how long each kind is kept, in words."""
    return retention_words.kept(**msgspec.structs.asdict(policy))


def documents(issuer: IssuerView) -> list[IssuerDocument]:
    return [
        IssuerDocument("configuration", ".well-known/openid-configuration", _as_text(issuer.configuration)),
        IssuerDocument("jwks", ".well-known/jwks.json", _as_text(issuer.jwks)),
    ]


def _as_text(document: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
