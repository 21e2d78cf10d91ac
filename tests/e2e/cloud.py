"""Reads a token of a job as a cloud does: with the keys that the server publishes."""

from typing import Any

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.e2e.system import System


def as_a_cloud_reads_it(system: System, token: str) -> dict[str, Any]:
    about = httpx.get(f"{system.url}/.well-known/openid-configuration").json()
    assert about["issuer"] == system.url
    keys = KeySet.import_key_set(httpx.get(about["jwks_uri"]).json())
    return jwt.decode(token, keys, about["id_token_signing_alg_values_supported"]).claims
