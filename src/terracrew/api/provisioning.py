"""Provisioning of people and groups by an identity provider (SCIM 2.0), as the owners of an organization manage it."""

from datetime import datetime
from typing import Annotated

import msgspec

from terracrew.api.fields import Field


class Provisioner(msgspec.Struct, frozen=True):
    """The service account as which an identity provider creates, changes and deactivates the people of an organization."""

    organization_id: str
    service_account_id: str
    provider_id: str | None
    """The provider of single sign-on at which the same people log in. Who arrives there with the `externalId` of a person as `sub`
    (Entra ID: as `oid`) is that person."""
    created_by: str
    created_at: datetime


class ProvisionerDetails(Provisioner, frozen=True):
    address: str = ""
    """The address for the identity provider: the base of SCIM 2.0."""
    account: str = ""
    provider: str = ""
    """The path of the service account."""
    people: int = 0
    groups: int = 0


class NewProvisioner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    service_account: str
    """Its id or path. It must belong to the organization itself, not to a group, and needs no role."""
    provider: Annotated[str, Field(metavar="NAME")] = ""
    """The name or id of the provider of single sign-on at which the same people log in; empty for none."""


class AdoptPerson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lets the identity provider manage a user that exists already."""

    user: str
    user_name: Annotated[str, Field(metavar="TEXT")] = ""
    """The `userName` by which the identity provider finds the user; by default the user's name."""
    external_id: Annotated[str, Field(metavar="TEXT")] = ""
    """The `externalId` that the identity provider knows the user by."""


class ProvisionedListed(msgspec.Struct, frozen=True):
    """A person whom the identity provider manages."""

    id: str
    """The id of the user."""
    user: str
    user_name: str
    external_id: str
    is_disabled: bool
    is_deleted: bool
    """Whether the identity provider has deleted the person. The user is disabled, and nothing of their past is removed."""
    groups: tuple[str, ...]
    changed_at: datetime


class ProvisionedGroupListed(msgspec.Struct, frozen=True):
    id: str
    display_name: str
    external_id: str
    members: int
    changed_at: datetime
