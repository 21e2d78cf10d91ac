"""What pages, terminals and the audit log say of single sign-on in the same words."""

from typing import Protocol


class ShownRule(Protocol):
    """A rule that turns a claim into a role: `terracrew.api.sso.MappingRule`."""

    @property
    def claim(self) -> str: ...
    @property
    def is_pattern(self) -> bool: ...
    @property
    def value(self) -> str: ...


def condition(rule: ShownRule) -> str:
    """Return what somebody must have: `groups = platform-admins`, or `groups like team-*`."""
    return f"{rule.claim} {'like' if rule.is_pattern else '='} {rule.value}"


def policy(*, is_required: bool) -> str:
    """Return how the people of an organization log in."""
    return "by single sign-on only" if is_required else "by password or single sign-on"
