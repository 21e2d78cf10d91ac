"""What an identity provider says of people and groups."""

from datetime import datetime

import msgspec

MAX_TEXT_CHARACTERS = 256
MAX_EMAILS = 20
MAX_MEMBERS = 20_000
"""The most members of one group."""
MAX_GROUPS = 5_000
MAX_PEOPLE = 100_000


class PersonName(msgspec.Struct, frozen=True):
    formatted: str = ""
    given: str = ""
    family: str = ""


class Email(msgspec.Struct, frozen=True):
    value: str
    type: str = ""
    is_primary: bool | None = None


class PersonData(msgspec.Struct, frozen=True):
    """A person as the identity provider wants them to be."""

    user_name: str
    external_id: str = ""
    display_name: str = ""
    name: PersonName = PersonName()
    emails: tuple[Email, ...] = ()
    is_active: bool = True


class ProvisionedPerson(msgspec.Struct, frozen=True):
    """A row."""

    user_id: str
    organization_id: str
    user_name: str
    user_name_key: str
    """The name in small letters: no two people of an organization have the same."""
    external_id: str
    display_name: str
    name: PersonName
    emails: tuple[Email, ...]
    created_at: datetime
    changed_at: datetime
    deleted_at: datetime | None = None

    @classmethod
    def new(cls, user_id: str, organization_id: str, wanted: PersonData, now: datetime) -> "ProvisionedPerson":
        """Return the row of somebody whom the identity provider manages from now on."""
        return cls(
            user_id=user_id,
            organization_id=organization_id,
            user_name=wanted.user_name,
            user_name_key=wanted.user_name.casefold(),
            external_id=wanted.external_id,
            display_name=wanted.display_name,
            name=wanted.name,
            emails=wanted.emails,
            created_at=now,
            changed_at=now,
        )


class GroupData(msgspec.Struct, frozen=True):
    display_name: str
    external_id: str = ""
    members: tuple[str, ...] = ()
    """The ids of users."""


class ProvisionedGroup(msgspec.Struct, frozen=True):
    """A row."""

    id: str
    organization_id: str
    display_name: str
    display_name_key: str
    external_id: str
    created_at: datetime
    changed_at: datetime


class PersonSeen(msgspec.Struct, frozen=True):
    """A person with what other tables know."""

    person: ProvisionedPerson
    is_active: bool
    groups: tuple[tuple[str, str], ...] = ()
    """The ids and names of their groups."""


class GroupSeen(msgspec.Struct, frozen=True):
    group: ProvisionedGroup
    members: tuple[tuple[str, str], ...] = ()
    """The ids and names of its members."""


class Lookup(msgspec.Struct, frozen=True):
    """What a list is limited to. A field that is None limits nothing."""

    user_name: str | None = None
    external_id: str | None = None
    resource_id: str | None = None
    display_name: str | None = None
    email: str | None = None
    is_active: bool | None = None
    member_id: str | None = None
