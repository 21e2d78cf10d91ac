"""What this interface says of itself: its abilities, its resources, and their attributes. Requests are read by the same description."""

from typing import Any, Literal

import msgspec

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
_CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
MAX_RESULTS = 200
DEFAULT_PAGE_ROWS = 100
Kind = Literal["string", "boolean", "complex", "reference"]


class Attribute(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    words: str
    is_many: bool = False
    is_required: bool = False
    is_unique: bool = False
    is_exact: bool = False
    """Whether large and small letters differ."""
    is_read_only: bool = False
    parts: tuple["Attribute", ...] = ()
    refers_to: str = ""
    """The type of the resources that a reference leads to. A reference follows from its `value`, and what is sent is passed over."""

    def part(self, name: str) -> "Attribute | None":
        return next((each for each in self.parts if each.name.lower() == name.lower()), None)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "type": self.kind,
            "multiValued": self.is_many,
            "description": self.words,
            "required": self.is_required,
            "caseExact": self.is_exact,
            "mutability": "immutable" if self.refers_to else "readOnly" if self.is_read_only else "readWrite",
            "returned": "default",
            "uniqueness": "server" if self.is_unique else "none",
        }
        if self.refers_to:
            found["referenceTypes"] = [self.refers_to]
        return found | ({"subAttributes": [each.document() for each in self.parts]} if self.parts else {})


EXTERNAL_ID = Attribute("externalId", "string", "The id that the identity provider knows it by.", is_exact=True)
USER_ATTRIBUTES = (
    Attribute(
        "userName",
        "string",
        "The name by which the identity provider finds a person.",
        is_required=True,
        is_unique=True,
    ),
    Attribute(
        "name",
        "complex",
        "The parts of the name.",
        parts=(
            Attribute("formatted", "string", "The whole name."),
            Attribute("familyName", "string", "The family name."),
            Attribute("givenName", "string", "The given name."),
        ),
    ),
    Attribute("displayName", "string", "The name to show."),
    Attribute(
        "emails",
        "complex",
        "Addresses of e-mail.",
        is_many=True,
        parts=(
            Attribute("value", "string", "The address."),
            Attribute("type", "string", "What it is for, such as work."),
            Attribute("primary", "boolean", "Whether it is the preferred one."),
        ),
    ),
    Attribute(
        "active",
        "boolean",
        "Whether the person may log in. The sessions and tokens of others end at once.",
        is_required=True,
    ),
    Attribute(
        "groups",
        "complex",
        "The groups of the person.",
        is_many=True,
        is_read_only=True,
        parts=(
            Attribute("value", "string", "The id of the group.", is_read_only=True, is_exact=True),
            Attribute(
                "$ref", "reference", "The address of the group.", is_read_only=True, is_exact=True, refers_to="Group"
            ),
            Attribute("display", "string", "The name of the group.", is_read_only=True),
        ),
    ),
)
GROUP_ATTRIBUTES = (
    Attribute("displayName", "string", "The name, which rules of single sign-on compare.", is_required=True),
    Attribute(
        "members",
        "complex",
        "The people in the group.",
        is_many=True,
        parts=(
            Attribute("value", "string", "The id of the user.", is_exact=True),
            Attribute(
                "$ref", "reference", "The address of the user.", is_read_only=True, is_exact=True, refers_to="User"
            ),
        ),
    ),
)


def attribute(attributes: tuple[Attribute, ...], name: str) -> Attribute | None:
    if name.lower() == EXTERNAL_ID.name.lower():
        return EXTERNAL_ID
    return next((each for each in attributes if each.name.lower() == name.lower()), None)


def service_provider_config(base: str) -> dict[str, Any]:
    no = {"supported": False}
    return {
        "schemas": [_CONFIG],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_RESULTS},
        "changePassword": no,
        "sort": no,
        "etag": no,
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "OAuth Bearer Token",
                "description": "A client secret or an access token of the service account that provisions the organization.",
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base}/ServiceProviderConfig"},
    }


def resource_types(base: str) -> list[dict[str, Any]]:
    return [_resource_type(base, "User", "Users", USER), _resource_type(base, "Group", "Groups", GROUP)]


def _resource_type(base: str, name: str, endpoint: str, schema: str) -> dict[str, Any]:
    return {
        "schemas": [_TYPE],
        "id": name,
        "name": name,
        "endpoint": f"/{endpoint}",
        "schema": schema,
        "meta": {"resourceType": "ResourceType", "location": f"{base}/ResourceTypes/{name}"},
    }


def schemas(base: str) -> list[dict[str, Any]]:
    return [_schema(base, USER, "User", USER_ATTRIBUTES), _schema(base, GROUP, "Group", GROUP_ATTRIBUTES)]


def _schema(base: str, schema: str, name: str, attributes: tuple[Attribute, ...]) -> dict[str, Any]:
    return {
        "schemas": [_SCHEMA],
        "id": schema,
        "name": name,
        "attributes": [each.document() for each in attributes],
        "meta": {"resourceType": "Schema", "location": f"{base}/Schemas/{schema}"},
    }
