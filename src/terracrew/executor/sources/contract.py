"""The contract of a source: how the files of a module get into the workspace of an attempt.

A `SourceFetcher` is registered under the kind of source that it fetches (see `terracrew.plugins`). One of another package
gets a `PluginSource`: the server has checked nothing but the size of its settings, so the fetcher checks them, with
`msgspec.convert` for example, and raises Invalid for settings that it does not understand.
`terracrew.testing.source_contract` tests one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from terracrew.executor.delivery.transfer import Transfer
from terracrew.protocol.events import SourceResolved

S = TypeVar("S", contravariant=True)


class FetchContext(msgspec.Struct, frozen=True):
    """What a fetcher can use."""

    cache: Path
    """A directory that all attempts of the runner share."""
    roots: Sequence[str]
    """The folders of this machine from which modules may be copied."""
    transfer: Transfer
    """Requests to the server in the name of the attempt."""
    archive: bytes | None = None
    """The archive of the job, if it was small enough to come with the job."""


class SourceFetcher(Protocol[S]):
    """Fetches sources of one kind. It has no state of its own."""

    async def fetch(self, source: S, workspace: Path, context: FetchContext) -> SourceResolved:
        """Fill the empty workspace, and return a description of what was fetched.

        The digest is the same if and only if the content is the same: a later attempt of the job refuses another one. A small
        source of Terracrew's own kinds is fetched without waiting for the event loop, so that the engine starts first (see
        `run_before_loop`); the fetcher of a `PluginSource` always has a running loop.
        """
        ...
