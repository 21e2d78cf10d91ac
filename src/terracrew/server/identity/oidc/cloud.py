"""Tokens for clouds (OIDC): an engine, or the fleet process, presents one to a cloud that trusts this server's keys.

A token of an engine names its module and phase; one of the fleet process names a cloud identity.
"""

import secrets
import time
from typing import Any

import msgspec

from terracrew.clouds.model import CloudIdentity
from terracrew.errors import Invalid
from terracrew.protocol.cloud import Phase
from terracrew.server.identity.keys.signing import ALGORITHM, SigningKeys
from terracrew.server.principals.model import AUDIENCE

LIFETIME_SECONDS = 600
KIND = "JWT"
"""A different kind than our own access tokens, so that a token which a cloud has seen is not accepted here."""


class Subject(msgspec.Struct, frozen=True):
    """The attempt and the phase that a token is for."""

    organization_id: str
    organization: str
    module_id: str
    module_path: str
    job_id: str
    attempt: int
    phase: Phase

    @property
    def name(self) -> str:
        """The subject that a cloud's trust policy compares. Names and paths contain no colon, so it is unambiguous."""
        return f"organization:{self.organization}:module:{self.module_path}:phase:{self.phase}"


class CloudToken(msgspec.Struct, frozen=True):
    token: str
    expires_in: int = LIFETIME_SECONDS

    def __repr__(self) -> str:
        return "CloudToken(…)"


async def mint(signing: SigningKeys, issuer: str, subject: Subject, audience: str) -> CloudToken:
    """Make a token for one audience. The caller must check who may have it."""
    claims = _claims(issuer, subject.name, audience) | {
        "organization_id": subject.organization_id,
        "module_id": subject.module_id,
        "job_id": subject.job_id,
        "attempt": subject.attempt,
        "phase": subject.phase,
    }
    return CloudToken(await signing.sign(claims, KIND))


async def mint_for_identity(signing: SigningKeys, identity: CloudIdentity, *, is_probe: bool = False) -> CloudToken:
    """Make a token that the account of a cloud identity accepts, and nobody else does: no other identity has its subject.

    As a probe, its subject is one that no identity has, so that a cloud with a good trust policy turns it away.
    """
    subject = f"{identity.subject}:probe:{secrets.token_hex(8)}" if is_probe else identity.subject
    claims = _claims(identity.issuer, subject, identity.audience)
    return CloudToken(await signing.sign(claims | {"organization_id": identity.organization_id}, KIND))


def _claims(issuer: str, subject: str, audience: str) -> dict[str, Any]:
    if audience == AUDIENCE:
        raise Invalid(f"the audience {AUDIENCE} is this server's own: no token for a cloud is made for it")
    now = int(time.time())
    return {
        "iss": issuer,
        "sub": subject,
        "aud": audience,
        "iat": now,
        "nbf": now,
        "exp": now + LIFETIME_SECONDS,
        "jti": secrets.token_hex(16),
    }


def configuration(issuer: str) -> dict[str, Any]:
    """Return the document that a cloud reads first: the issuer, and where its keys are."""
    claims = [
        "iss",
        "sub",
        "aud",
        "iat",
        "nbf",
        "exp",
        "jti",
        "organization_id",
        "module_id",
        "job_id",
        "attempt",
        "phase",
    ]
    return {
        "issuer": issuer,
        "jwks_uri": f"{issuer}/.well-known/jwks.json",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "scopes_supported": ["openid"],
        "claims_supported": claims,
    }
