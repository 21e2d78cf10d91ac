"""A host that answers as HCP Terraform does, as far as an import asks it: JSON:API in pages, and states on another host.

The shapes are those that the client library of HCP Terraform reads.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.client.scripted_server import Asked, ScriptedServer, running

TOKEN = "hcp-token-that-nobody-may-see"
PAGE_ITEMS = 100


def state(lineage: str, serial: int = 1) -> bytes:
    empty = {"version": 4, "terraform_version": "1.5.7", "outputs": {}, "resources": []}
    return json.dumps(empty | {"lineage": lineage, "serial": serial}).encode()


class HcpSite:
    """The host, and the one that it keeps states on."""

    def __init__(self, server: ScriptedServer, archive: ScriptedServer, organization: str = "acme") -> None:
        self.server, self.archive, self.organization = server, archive, organization
        self.workspaces: list[dict[str, Any]] = []
        self.server.on("GET /.well-known/terraform.json", {"tfe.v2": "/api/v2/"})
        self.server.on("GET /api/v2/ping", None, 204)
        self.lists("organizations/acme/projects", [])
        self.lists("organizations/acme/varsets", [])
        self.lists("organizations/acme/teams", [])

    @property
    def url(self) -> str:
        return self.server.url

    def lists(self, path: str, items: list[dict[str, Any]], **query: str) -> None:
        """Answer this list, in pages."""
        pages = max(1, -(-len(items) // PAGE_ITEMS))
        for number in range(1, pages + 1):
            asked = urlencode({**query, "page[size]": PAGE_ITEMS, "page[number]": number})
            following = number + 1 if number < pages else None
            meta = {"pagination": {"current-page": number, "next-page": following, "total-count": len(items)}}
            data = items[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]
            self.server.on(f"GET /api/v2/{path}?{asked}", {"data": data, "meta": meta})

    def workspace(
        self,
        name: str,
        *,
        content: bytes | None = None,
        md5: str = "",
        variables: list[dict[str, Any]] | None = None,
        project: str = "prj-default",
        **attributes: Any,
    ) -> str:
        """Add a workspace, and return its id. `content` is its state, which another host keeps."""
        workspace_id = f"ws-{len(self.workspaces):04}"
        at, state_id = f"workspaces/{workspace_id}", f"sv-{workspace_id}"
        given = {"name": name, "execution-mode": "remote", "terraform-version": "1.5.7"} | {
            key.replace("_", "-"): value for key, value in attributes.items()
        }
        relationships = {
            "project": {"data": {"id": project, "type": "projects"}},
            "current-state-version": {"data": {"id": state_id, "type": "state-versions"} if content else None},
        }
        self.workspaces.append(
            {"id": workspace_id, "type": "workspaces", "attributes": given, "relationships": relationships}
        )
        self.lists("organizations/acme/workspaces", self.workspaces)
        self.lists(f"{at}/vars", [variable(**each) for each in variables or []])
        self.lists(f"{at}/tag-bindings", [])
        self.lists(f"{at}/relationships/remote-state-consumers", [])
        self.lists(f"{at}/run-triggers", [], **{"filter[run-trigger][type]": "inbound"})
        self.lists("team-workspaces", [], **{"filter[workspace][id]": workspace_id})
        if content:
            self.state(workspace_id, content, md5)
        return workspace_id

    def state(self, workspace_id: str, content: bytes, md5: str = "") -> None:
        """Give a workspace a state. The host sends those who ask for it on to another one."""
        there = f"{self.archive.url}/object/{workspace_id}?signature=secret-of-the-address"
        attributes = {
            "serial": json.loads(content)["serial"],
            "size": len(content),
            "md5": md5 or hashlib.md5(content).hexdigest(),
            "hosted-state-download-url": f"{self.url}/api/state-versions/sv-{workspace_id}/hosted_state",
        }
        resource = {"id": f"sv-{workspace_id}", "type": "state-versions", "attributes": attributes}
        self.server.on(f"GET /api/v2/workspaces/{workspace_id}/current-state-version", {"data": resource})
        self.server.routes[f"GET /api/state-versions/sv-{workspace_id}/hosted_state"] = lambda asked: asked.answer(
            302, None, Location=there
        )
        self.archive.routes[f"GET /object/{workspace_id}?signature=secret-of-the-address"] = lambda asked: asked.answer(
            200, content, "application/octet-stream"
        )

    def variable_set(self, name: str, variables: list[dict[str, Any]], sets: list[dict[str, Any]], **more: Any) -> None:
        """Add a variable set to those that there are."""
        set_id = f"varset-{len(sets)}"
        relationships = {
            kind: {"data": [{"id": each, "type": kind} for each in more.pop(kind, [])]}
            for kind in ("projects", "workspaces")
        }
        sets.append(
            {"id": set_id, "type": "varsets", "attributes": {"name": name} | more, "relationships": relationships}
        )
        self.lists("organizations/acme/varsets", sets)
        self.lists(f"varsets/{set_id}/relationships/vars", [variable(**each) for each in variables])

    @property
    def changes(self) -> list[Asked]:
        """The requests that change something here."""
        return [each for each in self.server.asked if each.method != "GET"]


def variable(key: str, value: Any = None, **more: Any) -> dict[str, Any]:
    given = {"key": key, "value": value, "category": "terraform", "hcl": False, "sensitive": False} | more
    return {"id": f"var-{key}", "type": "vars", "attributes": given}


@contextmanager
def hosts() -> Iterator[HcpSite]:
    with running() as server, running() as archive:
        yield HcpSite(server, archive)
