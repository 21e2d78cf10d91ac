"""Verifies OpenPGP signatures of publishers whose public keys are pinned beside this file.

The file of HashiCorp's key unites two copies of it: the current one, and one from before its validity was extended. Sequoia asks
whether a key was valid when it signed, and the current copy alone does not say that for releases before the extension.
"""

from functools import cache
from importlib import resources

import pysequoia
from msgspec import Struct

from terracrew.errors import Invalid
from terracrew.toolchains.signatures import rsa_encoding


class Publisher(Struct, frozen=True):
    title: str
    fingerprint: str
    """Of the primary key, so that a changed key file is refused."""


PUBLISHERS = {
    "hashicorp": Publisher("HashiCorp", "c874011f0ab405110d02105534365d9472d7468f"),
    "opentofu": Publisher("OpenTofu", "e3e6e43d84cb852eadb0051d0c0af313e5fd9f80"),
}


def verify(publisher: str, content: bytes, signature: bytes) -> str:
    """Return the fingerprint of the publisher's key, which made this detached signature of the content. Raises Invalid if it did not."""
    known = PUBLISHERS[publisher]

    def keys(_: list[str]) -> list[pysequoia.Cert]:
        return [key(publisher)]

    try:
        parsed = pysequoia.Sig.from_bytes(rsa_encoding.normalized(signature))
    except RuntimeError as error:
        raise Invalid(f"the file is not an OpenPGP signature ({_reason(error)})") from error
    try:
        checked = pysequoia.verify(bytes=content, store=keys, signature=parsed)
    except RuntimeError as error:
        signer = parsed.issuer_fingerprint or parsed.issuer_key_id or "an unknown key"
        raise Invalid(
            f"it was made by {signer} and is not one of {known.title}'s key {known.fingerprint} over this content"
            f" ({_reason(error)})"
        ) from error
    if [each.certificate for each in checked.valid_sigs] != [known.fingerprint]:
        raise Invalid(f"it was not made by {known.title}'s key {known.fingerprint}")
    return known.fingerprint


@cache
def key(publisher: str) -> pysequoia.Cert:
    """Return the pinned key of a publisher."""
    file = resources.files("terracrew.toolchains.signatures") / f"{publisher}.asc"
    found = pysequoia.Cert.from_bytes(file.read_bytes())
    if found.fingerprint != PUBLISHERS[publisher].fingerprint:
        raise Invalid(f"the pinned key {publisher}.asc has the fingerprint {found.fingerprint}, which is another one")
    return found


def _reason(error: RuntimeError) -> str:
    # Sequoia appends a stack trace, depending on the environment.
    return str(error).partition("\n")[0].rstrip(".")
