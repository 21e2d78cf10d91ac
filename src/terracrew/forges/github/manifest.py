"""Makes an application of GitHub by a manifest: the person's browser posts it, and the server exchanges the code that comes back."""

from typing import Any

import msgspec

from terracrew.forges import values
from terracrew.forges.contract import Send
from terracrew.forges.github.api import api_url, load_key
from terracrew.forges.github.forge import EVENTS
from terracrew.forges.rest import Rest

PERMISSIONS = {
    "metadata": "read",
    "contents": "write",
    "pull_requests": "write",
    "statuses": "write",
    "issues": "write",
}
"""`contents: write` is for merging only (`on_command_then_merge`)."""


class MadeApp(msgspec.Struct, frozen=True):
    """An application that GitHub has just made."""

    id: int
    slug: str
    pem: str
    webhook_secret: str | None = None
    html_url: str = ""

    def __repr__(self) -> str:
        return f"MadeApp({self.id})"


def address(base_url: str, owner: str, state: str) -> str:
    """Return where the browser posts the manifest to: the settings of the person, or of an organization."""
    place = f"organizations/{values.segment(owner)}/settings" if owner else "settings"
    return f"{base_url}/{place}/apps/new?state={values.segment(state)}"


def manifest(name: str, server_url: str, hook_url: str, redirect_url: str) -> dict[str, Any]:
    return {
        "name": name,
        "url": server_url,
        "hook_attributes": {"url": hook_url, "active": True},
        "redirect_url": redirect_url,
        "public": False,
        "default_permissions": PERMISSIONS,
        "default_events": EVENTS,
    }


async def exchange(send: Send, base_url: str, code: str) -> MadeApp:
    """Return the application that a code stands for. A code is valid once, and for an hour."""
    rest = Rest(send, api_url(base_url), {"Accept": "application/vnd.github+json"})
    made = await rest.send(MadeApp, "POST", f"/app-manifests/{values.segment(code)}/conversions", {})
    load_key(made.pem)
    return made
