"""The tree of errors, which all processes share.

    TerracrewError
    ├── Invalid               400  the request is malformed or contradictory
    │   └── TooLarge          413
    ├── Unauthenticated       401  the caller is not known
    │   └── CredentialEnded   401  a runner's token for one job is not valid any more, so the runner exits
    ├── Forbidden             403  the caller is known but not allowed to do this
    ├── NotFound              404
    │   └── Removed           404  the runner was removed, so its processes exit
    ├── Conflict              409  the current state of the object does not allow this
    │   ├── Incomplete        409  an upload that lacks some of its parts
    │   ├── Superseded        409  an attempt that is no longer the current one
    │   └── Locked            409  another attempt holds the module's state lock
    ├── RateLimited           429
    ├── Unavailable           503  try again
    ├── Undecryptable         500  stored content that none of the server's master keys decrypts
    ├── Damaged               500  a stored row that is not what a server writes
    ├── Incompatible          426  the two ends, or a server and its database, have versions that do not fit
    ├── EngineMissing         —    no such engine on this machine
    ├── ProgramFailed         —    a program that the settings name (a credential helper) could not be used
    └── Unreachable           —    the server does not answer
        └── ForeignAnswer     —    something else answered: a proxy, a firewall, a login page

Transient errors are marked (`is_transient`): another machine is away or busy at this moment, so that the same thing may succeed later.

Errors are translated at borders only: constraint → error (db), error → problem+json (api), problem+json → the same class
(client), error → message and exit code (cli).
"""

from typing import Any, ClassVar


class TerracrewError(Exception):
    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    is_transient: ClassVar[bool] = False
    """Whether the same thing may succeed later without a change by anybody, so that a retry makes sense."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class Invalid(TerracrewError):
    status, code, exit_code = 400, "invalid", 2

    def __init__(self, message: str, *, field: str | None = None, **details: Any) -> None:
        """`field` names what is wrong in the request, such as `limits.job_seconds`. The message begins with it, too."""
        super().__init__(message, **{"field": field} if field else {}, **details)
        self.field = field or None

    @classmethod
    def in_field(cls, field: str, message: str) -> "Invalid":
        """Return the error about a field of the request, whose name the message begins with."""
        return cls(f"{field}: {message}", field=field)

    @property
    def reason(self) -> str:
        """The message without the name of the field, for a form that shows it beside the field."""
        return self.message.removeprefix(f"{self.field}: ")


class TooLarge(Invalid):
    status, code = 413, "too_large"


class Unauthenticated(TerracrewError):
    status, code, exit_code = 401, "unauthenticated", 3


class CredentialEnded(Unauthenticated):
    code = "credential_ended"


class Forbidden(TerracrewError):
    status, code, exit_code = 403, "forbidden", 3


class NotFound(TerracrewError):
    status, code, exit_code = 404, "not_found", 4


class Removed(NotFound):
    code = "removed"


class Conflict(TerracrewError):
    status, code, exit_code = 409, "conflict", 5


class Incomplete(Conflict):
    code = "incomplete"


class Superseded(Conflict):
    code = "superseded"


class Locked(Conflict):
    code = "locked"


class RateLimited(TerracrewError):
    status, code, exit_code = 429, "rate_limited", 6
    is_transient = True


class Unavailable(TerracrewError):
    status, code, exit_code = 503, "unavailable", 6
    is_transient = True


class Undecryptable(TerracrewError):
    code = "undecryptable"


class Damaged(TerracrewError):
    code = "damaged"


class Incompatible(TerracrewError):
    status, code, exit_code = 426, "incompatible", 7


class EngineMissing(TerracrewError):
    code, exit_code = "engine_missing", 8


class ProgramFailed(TerracrewError):
    code, exit_code = "program_failed", 9
    is_transient = True


class Unreachable(TerracrewError):
    status, code, exit_code = 503, "unreachable", 6
    is_transient = True


class ForeignAnswer(Unreachable):
    status, code = 502, "foreign_answer"


def tree(root: type[TerracrewError] = TerracrewError) -> dict[str, type[TerracrewError]]:
    """Return every class by its stable code, so that a client raises the same error as the server.

    A class without a code of its own, which only this machine's code tells from its parent, is left out.
    """
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= {code: kind for code, kind in tree(child).items() if code != root.code}
    return found
