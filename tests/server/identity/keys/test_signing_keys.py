"""A new signing key is published before it signs, the old one verifies on, and the private parts stay secret."""

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey

from terracrew.errors import Unauthenticated
from terracrew.server.identity.context import open_identity
from terracrew.server.identity.keys.rotation import ROTATION_SECONDS, Rotation
from terracrew.server.identity.keys.signing import PUBLISHED_SECONDS, VERIFY_AFTER_SECONDS, SigningKeys
from tests.builders.clock import ShiftedClock
from tests.server.identity.identity_server import URL, IdentityServer


async def test_a_new_signing_key_is_published_before_it_signs_and_the_old_one_verifies_on(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    """A signing key was used for ever: nothing ever called for a new one."""
    another = await open_identity(server.db, server.container.keys, URL)
    signing, other = server.identity.tokens.signing, another.tokens.signing
    rotation = Rotation(server.db, signing, "srv_1")
    account, _, secret = await server.account()
    before = await server.identity.tokens.exchange(f"default:{account}", secret, "")

    async def kid(of: SigningKeys) -> str:
        return str(jws.extract_compact((await of.sign({}, "test")).encode()).headers()["kid"])

    old = await kid(signing)
    await rotation.step()
    assert len(signing.jwks()["keys"]) == 1, "a new key is not due"
    clock.advance(ROTATION_SECONDS)
    await rotation.step()
    assert len(signing.jwks()["keys"]) == 2
    assert await kid(signing) == old, "every server must know the new key before it signs"
    await Rotation(server.db, other, "srv_2").step()  # without the lease, it only reads the keys
    clock.advance(PUBLISHED_SECONDS)
    await rotation.step()
    new = await kid(signing)
    assert new != old
    after = await server.identity.tokens.exchange(f"default:{account}", secret, "")
    for token in (before, after):
        assert (await another.tokens.principal(token.access_token)).id == account
    clock.advance(3 * VERIFY_AFTER_SECONDS)
    await rotation.step()
    await signing.load()
    assert [key["kid"] for key in signing.jwks()["keys"]] == [new]
    assert await server.db.read(lambda tx: tx.all("SELECT id FROM signing_keys")) == [{"id": new}]


async def test_tokens_of_unknown_keys_do_not_make_the_server_read_its_keys_each_time(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    signing, loads = server.identity.tokens.signing, list[int]()
    load = signing.load

    async def counted() -> None:
        loads.append(1)
        await load()

    monkeypatch.setattr(signing, "load", counted)
    key = ECKey.generate_key("P-256", private=True)
    for number in range(20):
        forged = jwt.encode({"alg": "ES256", "kid": f"key_{number}", "typ": "at+jwt"}, {}, key, ["ES256"])
        with pytest.raises(Unauthenticated):
            await signing.verify(forged, "at+jwt")
    assert len(loads) <= 1


@pytest.mark.feature("J13.discovery")
async def test_the_service_discovery_document_is_public_and_names_the_api(server: IdentityServer) -> None:
    async with server.client() as client:
        answer = await client.get("/.well-known/terraform.json")
        assert answer.headers["Content-Type"].startswith("application/json")
        address = answer.json()["terracrew.v1"]
        assert (await client.get(f"{address}me")).status_code == 401, "the API is at this address, and asks who calls"


async def test_the_public_keys_are_public_and_nothing_else_is(server: IdentityServer) -> None:
    async with server.client() as client:
        keys = (await client.get("/.well-known/jwks.json")).json()["keys"]
    assert [set(key) for key in keys] == [{"kty", "crv", "x", "y", "kid", "use", "alg"}]
    account, _, secret = await server.account()
    token = (await server.exchange(f"default:{account}", secret)).json()["access_token"]
    assert jwt.decode(token, ECKey.import_key(keys[0]), ["ES256"]).claims["sub"] == account
    stored = await server.db.read(lambda tx: tx.all("SELECT private_jwk FROM signing_keys"))
    assert b'"d"' not in bytes(stored[0]["private_jwk"])
