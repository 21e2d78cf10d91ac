"""The contract of a source: how the files of a module get into the workspace of an attempt.

A `SourceFetcher` is registered under the kind of source that it fetches (see `terracrew.plugins`). One of another package
gets a `PluginSource`: the server has checked nothing but the size of its settings, so the fetcher checks them, with
`msgspec.convert` for example, and raises Invalid for settings that it does not understand.
`terracrew.testing.source_contract` tests one.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from terracrew.errors import Conflict, Unavailable
from terracrew.executor.control import Control
from terracrew.executor.delivery.transfer import Transfer
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import KnownRevision

S = TypeVar("S", contravariant=True)
T = TypeVar("T")


class Confinement(Protocol):
    """Takes rights away from what handles files that others made."""

    def within(self, work: Callable[[], T], *folders: Path) -> T:
        """Call a function in a thread that can open nothing but what is in these folders. It must not have to import anything."""
        ...

    def start(self, begin: Callable[[], T], *, writable: Sequence[Path], readable: Sequence[str]) -> T:
        """Call a function that starts a program, which may change these folders, and read these paths beside those of the machine."""
        ...


class Unconfined:
    """Takes no rights away."""

    def within(self, work: Callable[[], T], *folders: Path) -> T:  # noqa: ARG002
        return work()

    def start(self, begin: Callable[[], T], *, writable: Sequence[Path], readable: Sequence[str]) -> T:  # noqa: ARG002
        return begin()


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
    environment: Mapping[str, str] = {}
    """The environment of the runner, without Terracrew's own variables. Nothing of the module is in it."""
    owner: str = ""
    """The organization of the job. What was fetched with its rights is not given to others."""
    digest: str = ""
    """The digest that an earlier attempt of the job got; '' for the first. A fetcher that can get older content gets this."""
    revision: str = ""
    """The revision that belongs to this digest."""
    known_revisions: Sequence[KnownRevision] = ()
    """What revisions meant to earlier jobs of the module, the newest first."""
    variables: Mapping[str, str] = {}
    """The environment variables of the module. A source may name one of them as its credential."""
    own_tokens: Mapping[str, str] = {}
    """The token of the job by the hosts of its own server, with their ports unless these are 443."""
    scratch: Path | None = None
    """A private directory of the attempt, for files that must not outlive the fetch."""
    control: Control | None = None
    """Tells whether the attempt was asked to stop."""
    confinement: Confinement = Unconfined()
    """What unpacks archives and starts programs for the fetch."""
    say: Callable[[str], None] = lambda _: None
    """Writes a line into the log of the job. Only the thread of the event loop may call it."""


class SourceFetcher(Protocol[S]):
    """Fetches sources of one kind. It has no state of its own."""

    async def fetch(self, source: S, workspace: Path, context: FetchContext) -> SourceResolved:
        """Fill the empty workspace, and return a description of what was fetched.

        The digest is the same if and only if the content is the same: a later attempt of the job refuses another one.
        """
        ...


class FetchLimits(msgspec.Struct, frozen=True):
    total_seconds: float = 1800.0
    """How long fetching one source may take, with its submodules and the wait for other attempts."""
    silence_seconds: float = 120.0
    """How long git may run without any progress."""
    pack_bytes: int = 2 << 30
    """The largest file that git may write. What is fetched at once is one file."""
    memory_bytes: int = 4 << 30
    """The address space of one git process."""
    answer_bytes: int = 64 << 20
    """The most that a git command may print, for example the list of files or of tags."""


class Deadline:
    """Ends the work on one source: when its time is over, or when the attempt is asked to stop."""

    def __init__(self, limits: FetchLimits, control: Control | None) -> None:
        self.limits = limits
        self._control = control
        self._ends_at = time.monotonic() + limits.total_seconds

    def check(self, what: str) -> None:
        """Raise an error that ends the fetch, if it must end."""
        if self._control is not None and self._control.stop_mode(is_mutating=False) is not None:
            raise Conflict(f"{what} was stopped")
        if time.monotonic() > self._ends_at:
            raise Unavailable(f"{what} took longer than {self.limits.total_seconds:.0f} s, so it was ended")
