"""Decides which server, token and organization a command uses: flags first, then environment, profile, a local server."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terracrew.errors import Unauthenticated

if TYPE_CHECKING:
    from terracrew.client.http import Api

DEFAULT_URL = "http://127.0.0.1:7400"


@dataclass(frozen=True)
class Resolved:
    """The address and the token in use, and where each comes from."""

    url: str
    url_from: str
    token: str
    token_from: str
    organization: str = ""
    """The organization that commands are about; empty for the caller's own."""
    organization_from: str = ""

    def __repr__(self) -> str:
        return f"Resolved({self.url!r} from {self.url_from}, token from {self.token_from or 'nowhere'})"


@dataclass(frozen=True)
class Target:
    url: str | None = None
    profile: str | None = None
    token_file: Path | None = None
    organization: str | None = None

    def api(self, *, timeout: float = 30) -> "Api":
        """Return a client for that server."""
        from terracrew.client.http import Api, no_server

        found = self.resolve()
        if not found.token:
            if not Api(found.url).is_ready():
                raise no_server(found.url)
            raise Unauthenticated(
                f"there is no token for {found.url}",
                hint=f"`terracrew --url {found.url} login` stores one; TERRACREW_TOKEN sets one for a single command",
            )
        return Api(found.url, found.token, timeout=timeout, organization=found.organization or None)

    def resolve(self) -> Resolved:
        from terracrew.cli.connection import (
            local,
            profiles,  # imported here to keep `--help` fast
        )

        profile = profiles.load().get(self.profile)
        chosen = f"profile {profile.name}"
        environment: Mapping[str, str] = os.environ
        if self.profile:
            # --profile is a flag, and flags override the environment.
            environment = {}
        url, url_from = _first(
            (self.url, "--url"), (environment.get("TERRACREW_URL"), "TERRACREW_URL"), (profile.url, chosen)
        )
        if not url:
            server = local.newest()
            url, url_from = (server.url, "the server on this machine") if server else (DEFAULT_URL, "default")
        url = url.rstrip("/")
        # A token is sent only to the server that it was stored for.
        stored = profile.token if url == profile.url.rstrip("/") else ""
        token, token_from = _first(
            (_read(self.token_file), "--token-file"),
            (environment.get("TERRACREW_TOKEN"), "TERRACREW_TOKEN"),
            (stored, chosen),
            (local.token(url), "the server's data directory"),
        )
        # An organization is one of the server that it was stored for, too.
        own = profile.organization if profile.url.rstrip("/") in ("", url) else ""
        organization, organization_from = _first(
            (self.organization, "--organization"),
            (environment.get("TERRACREW_ORGANIZATION"), "TERRACREW_ORGANIZATION"),
            (own, chosen),
        )
        return Resolved(url, url_from, token, token_from, organization, organization_from)


pass_target = click.make_pass_decorator(Target)


def _first(*candidates: tuple[str | None, str]) -> tuple[str, str]:
    return next(((value, origin) for value, origin in candidates if value), ("", ""))


def _read(file: Path | None) -> str | None:
    return file.read_text().strip() if file else None
