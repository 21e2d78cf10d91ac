"""The lock of a module, held by a person or a service account while they work at a terminal."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

MAX_TEXT_CHARACTERS = 1_000
Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARACTERS)]


class ModuleLock(msgspec.Struct, frozen=True):
    """A lock that a person or a service account holds. It never expires, and no job of the module starts before it is released."""

    id: str
    module_id: str
    holder_id: str
    holder_kind: Literal["user", "service_account"]
    holder_name: str
    credential_id: str
    """The token, session or client secret that the lock was taken with. Nobody writes states under it with another one."""
    credential: str
    """The kind of that credential: `token`, `session`, `local_token` or `secret`."""
    created_at: datetime
    credential_name: str = ""
    """The name of the API token, if it is one."""
    reason: str = ""
    """Why it was taken, in the words of its holder."""
    client_lock_id: str = ""
    """The id that the engine at the terminal has given the lock. `force-unlock` of the engine asks for it."""
    operation: str = ""
    """What the engine does under it, such as `OperationTypeApply`; empty if the lock was taken by hand."""
    who: str = ""
    """The user and the machine, as the engine says."""
    client_version: str = ""
    """The version of the engine."""
    client_path: str = ""
    """The path of the state, as the engine says."""
    writes: int = 0
    """How many states were written under it."""
    is_last_intermediate: bool = False
    """Whether the last of them was written in the middle of a change."""


class TakeLock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request to lock a module."""

    reason: Text = ""
    """Why, for everybody who waits."""
    client_lock_id: Text = ""
    """The id that the client gives the lock. A request with the id of a lock that the same credential holds is a repetition."""
    operation: Text = ""
    """What an engine is going to do. Without it, the lock counts as taken by hand, until a state is written under it."""
    who: Text = ""
    client_version: Text = ""
    client_path: Text = ""


class Lock(msgspec.Struct, frozen=True):
    """The holder of the module's lock: the attempt of the active job, or a person."""

    job_id: str
    """Empty if a person holds it."""
    number: int
    attempt: int
    since: datetime
    lost_at: datetime | None = None
    """Since when the attempt that holds it counts as lost."""
    person: ModuleLock | None = None
    """The lock that a person or a service account holds."""
