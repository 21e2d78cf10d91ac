"""Looks after the hook of a repository: makes it, repairs it, and enables it again where the forge has disabled it."""

import msgspec

from terracrew.api.forges import HookStatus
from terracrew.forges.contract import Forge, ForgeRefused
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeRepository

PATH = "/hooks"
"""The address that forges deliver to, below the address of the server and before the id of the connection."""


class HookLook(msgspec.Struct, frozen=True):
    """What was found out about a hook."""

    status: HookStatus
    message: str = ""
    hook_id: str = ""


async def look_at_hook(
    forge: Forge, connection: ForgeConnection, repository: ForgeRepository, hooks_url: str, forges: Forges
) -> HookLook:
    """Make or repair the hook of a repository. A connection that may not do so is polled, and says how the hook is made by hand."""
    if not forge.limits.has_pull_requests:
        return HookLook("none", "a plain git repository has no hooks: it is polled")
    if not connection.makes_hooks:
        return HookLook("none", "people make the hook by hand, or there is none: it is polled")
    url = f"{hooks_url}/{connection.id}"
    try:
        hook = await forge.set_hook(repository.name, url, forges.credential(connection).hook_secret)
    except ForgeRefused as error:
        if error.answer_status == 401:
            raise
        return HookLook("missing", f"the hook could not be made, so the repository is polled: {error.message}")
    return HookLook("enabled" if hook.is_enabled else "disabled", hook.message, hook.id)
