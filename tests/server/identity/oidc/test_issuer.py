"""Clouds may read the keys of this server from copies elsewhere; no key signs that the copies do not have."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc import jws

from terracrew.clouds.model import AwsAccount, CloudIdentity
from terracrew.server.db.seam import Database
from terracrew.server.identity.context import Identity, open_identity
from terracrew.server.identity.keys.rotation import ROTATION_SECONDS, Rotation
from terracrew.server.identity.keys.signing import PUBLISHED_SECONDS
from terracrew.server.identity.oidc import cloud
from terracrew.server.secrets.keyring import Keyring
from tests.builders.clock import ShiftedClock
from tests.machine import oidc_issuer
from tests.machine.aws_service import AwsService, Refusal, Role
from tests.machine.oidc_issuer import DISCOVERY, Issuer
from tests.server.application import open_application

URL = "http://crew.test"
KEYS = "/.well-known/jwks.json"
pytestmark = pytest.mark.feature("W1.issuer")


@pytest.fixture
def bucket() -> Iterator[Issuer]:
    with oidc_issuer.running() as found:
        found.answers = {DISCOVERY: (404, {}, b""), KEYS: (404, {}, b"")}
        yield found


@pytest.fixture
async def identity(database: Database, bucket: Issuer) -> Identity:
    """A server whose keys clouds read from the bucket."""
    return await open_identity(database, Keyring([b"k" * 32]), URL, issuer=bucket.url)


def export(identity: Identity, bucket: Issuer) -> None:
    """Copy both documents to the bucket, as a person does."""
    view = identity.issuer.view(identity.tokens.signing)
    bucket.answers[DISCOVERY] = (200, {}, json.dumps(view.configuration).encode())
    bucket.answers[KEYS] = (200, {}, json.dumps(view.jwks).encode())


async def signing_key(identity: Identity) -> str:
    return str(jws.extract_compact((await identity.tokens.signing.sign({}, "test")).encode()).headers()["kid"])


async def sign_in(identity: Identity, account: AwsService) -> None:
    """Assume a role of an account that fetches the keys from the bucket and verifies the signature."""
    cloud_identity = CloudIdentity(
        id="cid_1",
        organization_id="org_1",
        name="aws-prod",
        subject="organization:acme:cloud-identity:aws-prod:7f",
        audience="sts.amazonaws.com",
        issuer=identity.issuer.url,
        cloud=AwsAccount(role_arn="arn:aws:iam::123456789012:role/crew", region="eu-central-1"),
    )
    role = Role(
        arn="arn:aws:iam::123456789012:role/crew",
        issuer=identity.issuer.url,
        audience=cloud_identity.audience,
        subject=cloud_identity.subject,
    )
    account.add(role)
    token = await cloud.mint_for_identity(identity.tokens.signing, cloud_identity)
    asked = {"WebIdentityToken": token.token, "RoleArn": role.arn, "DurationSeconds": "900"}
    await asyncio.to_thread(account.assume_role_with_web_identity, asked)


async def test_a_key_that_the_copies_do_not_have_never_signs(
    identity: Identity, bucket: Issuer, database: Database, clock: ShiftedClock
) -> None:
    """The key was replaced every month: after the first one, clouds refused every token, and nothing said so."""
    signing = identity.tokens.signing
    rotation = Rotation(database, signing, "srv_1", identity.issuer)
    first, account = await signing_key(identity), AwsService()
    with pytest.raises(Refusal, match="retrieve verification key"):
        await sign_in(identity, account)
    await rotation.step()
    assert "cannot be read: 127.0.0.1 answered 404" in identity.issuer.problem(signing)
    assert signing.state.next_id is not None, "the next key is there at once, so that one export lasts for months"
    export(identity, bucket)
    await rotation.step()
    assert identity.issuer.problem(signing) == ""

    await sign_in(identity, account)

    clock.advance(ROTATION_SECONDS)
    await rotation.step()
    second = await signing_key(identity)
    assert second != first, "the copies have the next key, so it signs after a month"
    await sign_in(identity, account)
    await rotation.step()  # publishes the one after
    third = signing.state.next_id
    assert third is not None
    for _ in range(3):
        clock.advance(ROTATION_SECONDS + PUBLISHED_SECONDS)
        await rotation.step()
        assert await signing_key(identity) == second, "the copies do not have the third one"
        await sign_in(identity, account)
    problem = identity.issuer.problem(signing)
    assert "does not have the next key, which is to sign from" in problem
    assert "terracrew server issuer export" in problem
    assert "Until then the old key signs" in problem

    bucket.answers[KEYS] = (503, {}, b"")
    await rotation.step()
    assert await signing_key(identity) == second, "a bucket that does not answer may not have the key"
    export(identity, bucket)
    await rotation.step()
    assert await signing_key(identity) == third
    await sign_in(identity, account)
    assert identity.issuer.problem(signing) == ""


async def test_copies_without_the_key_that_signs_and_of_another_issuer_are_reported(
    identity: Identity, bucket: Issuer
) -> None:
    signing = identity.tokens.signing
    export(identity, bucket)
    bucket.answers[KEYS] = (200, {}, b'{"keys": [{"kid": "another"}, 1]}')
    await identity.issuer.published_keys()
    assert "does not have the key that signs now, so clouds refuse its tokens" in identity.issuer.problem(signing)
    for content, words in (
        (b"<html>", "is not a JSON document"),
        (b'{"issuer": "https://other.example"}', "its discovery document says issuer 'https://other.example'"),
        (b"[]", "is not a JSON document"),
    ):
        bucket.answers[DISCOVERY] = (200, {}, content)
        assert await identity.issuer.published_keys() == frozenset()
        assert words in identity.issuer.problem(signing)


async def test_a_server_that_clouds_read_itself_looks_nowhere_and_rotates_as_before(
    database: Database, clock: ShiftedClock
) -> None:
    identity = await open_identity(database, Keyring([b"k" * 32]), URL)
    rotation = Rotation(database, identity.tokens.signing, "srv_1", identity.issuer)
    assert await identity.issuer.published_keys() is None
    await rotation.step()
    view = identity.issuer.view(identity.tokens.signing)
    assert (view.issuer, view.is_separate, view.next_key, view.problem) == (URL, False, None, "")
    first = await signing_key(identity)
    clock.advance(ROTATION_SECONDS)
    await rotation.step()
    clock.advance(PUBLISHED_SECONDS)
    await rotation.step()
    assert await signing_key(identity) != first


async def test_the_documents_and_the_tokens_of_jobs_name_the_configured_issuer(
    database_url: str, memory_path: Path, bucket: Issuer
) -> None:
    async with open_application(database_url, memory_path / "data", issuer_url=bucket.url + "/") as application:
        about = (await application.stranger().get(DISCOVERY)).json()
        assert (about["issuer"], about["jwks_uri"]) == (bucket.url, bucket.url + KEYS)
        view = (await application.admin.get("/api/v1/issuer")).json()
        assert (view["issuer"], view["is_separate"]) == (bucket.url, True)
        assert view["configuration"] == about
        assert view["jwks"] == (await application.stranger().get(KEYS)).json()
        assert "answered 404" in view["problem"]
        assert "d" not in view["jwks"]["keys"][0], "the private part"
        owner = await application.person("olga", "owner")
        await owner.refused("GET", "/api/v1/issuer", 403)
