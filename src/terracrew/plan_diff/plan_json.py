"""The stored JSON of a plan, for command lines that show it elsewhere: the plan without sensitive values, and the schemas that it needs."""

import zlib

import msgspec

from terracrew.errors import Invalid, TooLarge

MAX_PLAN_JSON_BYTES = 32 << 20
"""A plan that is larger with its schemas is not kept, because the server reads it whole into memory."""


class PlanJson(msgspec.Struct, frozen=True):
    plan: msgspec.Raw
    """The document that `show -json PLAN` prints."""
    provider_format_version: str = ""
    provider_schemas: msgspec.Raw = msgspec.Raw(b"{}")
    """As `providers schema -json` prints them, of the types of resources in the plan only."""


_document = msgspec.json.Decoder(PlanJson)


def pack(found: PlanJson) -> bytes:
    plain = msgspec.json.encode(found)
    if len(plain) > MAX_PLAN_JSON_BYTES:
        raise TooLarge(
            f"with the schemas of its resources, it is described in {len(plain):,} bytes. At most {MAX_PLAN_JSON_BYTES:,} are kept"
        )
    return zlib.compress(plain, 6)


def unpack(content: bytes) -> PlanJson:
    """Raises Invalid if this is not such a document."""
    try:
        decompress = zlib.decompressobj()
        plain = decompress.decompress(content, MAX_PLAN_JSON_BYTES)
        if decompress.unconsumed_tail or not decompress.eof:
            raise Invalid("the JSON of this plan is larger than expected, or incomplete")
        return _document.decode(plain)
    except (ValueError, RecursionError, zlib.error) as error:
        raise Invalid(f"the JSON of this plan cannot be read: {error}") from error
