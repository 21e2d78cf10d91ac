"""The words and badges of the pages about access; templates see this module as `access_words`."""

from datetime import datetime
from typing import Protocol

from terracrew.api.access import Role
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.words import counted
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb

ROLE_ADDS = {
    Role.VIEWER: "Sees modules, jobs and runners, not states",
    Role.OPERATOR: "Also runs and cancels jobs, reads states",
    Role.APPROVER: "Also approves and declines plans",
    Role.OWNER: "Also changes modules, runners, access and states",
}
"""What each role adds to the ones before it."""
ROLE_EFFECTS = {
    Role.VIEWER: "see {modules} with their jobs and runners, but not their states",
    Role.OPERATOR: "run and cancel jobs of {modules}, and read their states",
    Role.APPROVER: "approve plans of {modules}, including destroys, and run jobs",
    Role.OWNER: "change {modules} with their runners and states, and decide who has access",
}
"""What somebody who gets a role will be able to do; completes "will be able to"."""
AUDIT_KINDS = (
    "archive",
    "audit",
    "group",
    "job",
    "module",
    "organization",
    "role",
    "runner",
    "service_account",
    "session",
    "state",
    "token",
    "user",
)
"""The kinds of actions that the audit log records."""
LIFETIMES = {"7": "In 7 days", "30": "In 30 days", "90": "In 90 days", "365": "In a year", "": "Never"}
"""How long a token, a secret or a role may be valid: the number of days, and its word."""
SOON_SECONDS = 7 * 86400
"""What expires within this time is marked."""


def action(verb: Verb) -> str:
    """Return what a verb of authorization means, as the entry of a list."""
    text = authorize.WORDS[verb]
    return text[0].upper() + text[1:]


def role_effect(role: str, place: str) -> str:
    """Return what a role allows at a place, before it is known who gets it."""
    return f"They will be able to {ROLE_EFFECTS[Role(role)].format(modules=f'the modules of {place}')}."


class _Held(Protocol):
    @property
    def role(self) -> Role: ...
    @property
    def path(self) -> str: ...


def revoke_consequence(name: str, where: str, kind: str, rest: _Held | None, is_own: bool) -> str:
    """Return what happens if a role is revoked. `rest` is another role that applies there and includes it."""
    scope = "" if kind == "module" else " and everything in it"
    if rest is not None:
        kept = f"{name} stays {rest.role.value} of {rest.path or 'the organization'}, which includes it."
        return f"Nothing changes for {where}{scope} at once: {kept}"
    lost = f"{name} loses what this role allows in {where}{scope} at once. Jobs that already run go on."
    return f"{lost} This is your own role: you may not be able to undo it." if is_own else lost


def account_consequence(secrets: int, roles: int, runners: int) -> str:
    """Return what happens if a service account with so many secrets, roles and runners is deleted."""
    text = f"{counted(secrets, 'secret')} and {counted(roles, 'role')} are deleted with it, and what uses them is refused at once."
    if runners:
        text += f" {counted(runners, 'runner')} that it serves cannot take jobs until another account is bound."
    return text


def disable_consequence(secrets: int, runners: int) -> str:
    """Return what happens if a service account with so many secrets and runners is disabled."""
    refused = (
        f"{counted(secrets, 'secret')} {'is' if secrets == 1 else 'are'} refused" if secrets else "It cannot log in"
    )
    text = f"{refused}, and programs and runners that are connected with it are disconnected within seconds."
    if runners:
        text += f" {counted(runners, 'runner')} that it serves cannot take jobs meanwhile."
    return f"{text} Secrets and roles are kept: enabling it restores them."


def enable_consequence(secrets: int, roles: int) -> str:
    """Return what happens if a service account with so many secrets and roles is enabled again."""
    again = f"Its {counted(secrets, 'secret')} can be used again, with its {counted(roles, 'role')}."
    return f"{again} Runners that it serves can take jobs again."


class _Person(Protocol):
    @property
    def is_disabled(self) -> bool: ...
    @property
    def has_password(self) -> bool: ...
    @property
    def is_invited(self) -> bool: ...


def user_badge(person: _Person) -> Badge:
    if person.is_disabled:
        return Badge("idle", "slash", "Disabled")
    if person.has_password:
        return Badge("ok", "circle", "Enabled")
    return Badge("warn", "clock", "Invited") if person.is_invited else Badge("warn", "mark", "No password")


def link_title(name: str, is_reset: bool) -> str:
    """Return the title above a one-time link."""
    return f"A new link for {name}" if is_reset else f"{name} is invited"


def rank(role: Role) -> int:
    """Return the rank of a role: 1 for a viewer, 4 for an owner."""
    return list(ROLE_ADDS).index(role) + 1


def until(then: datetime | None, now: datetime) -> str:
    """Return when something ends by itself, in words."""
    if then is None:
        return "never"
    seconds = (then - now).total_seconds()
    if seconds <= 0:
        return "expired"
    if seconds < 3600:
        return f"in {max(1, int(seconds // 60))} min"
    return f"in {int(seconds // 3600)} h" if seconds < 86400 else f"in {int(seconds // 86400):,} d"


def expiry_badge(then: datetime | None, now: datetime) -> Badge | None:
    """Return the badge of a credential that has expired, expires soon or never does; None for every other one."""
    if then is None:
        return Badge("warn", "mark", "never")
    if then <= now:
        return Badge("bad", "cross", "expired")
    is_soon = (then - now).total_seconds() < SOON_SECONDS
    return Badge("warn", "clock", until(then, now)) if is_soon else None
