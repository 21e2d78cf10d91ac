"""Signatures of other issuers, and the known ways to fake one."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from terracrew.server.identity.federation import verification
from terracrew.server.identity.federation.model import TokenRefused
from tests.machine.oidc_issuer import Issuer, Key, new_key

pytestmark = pytest.mark.feature("A3.exchange")
URL = "https://issuer.example.com"


def verified(token: str, *published: dict[str, Any]) -> dict[str, Any]:
    parsed = verification.parse(token)
    keys = verification.read_keys(json.dumps({"keys": published}).encode())
    return verification.verify(parsed, [key for key in keys if key.fits(parsed)])


def refusal(token: str, *published: dict[str, Any]) -> str:
    with pytest.raises(TokenRefused) as caught:
        verified(token, *published)
    return caught.value.reason


def public(key: Key, **changes: Any) -> dict[str, Any]:
    return key.as_dict(private=False) | changes


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def claims() -> dict[str, Any]:
    return {"iss": URL, "sub": "robot", "exp": int(time.time()) + 300}


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("2048", "RS256"),
        ("2048", "RS512"),
        ("2048", "PS256"),
        ("P-256", "ES256"),
        ("P-384", "ES384"),
        ("P-521", "ES512"),
        ("Ed25519", "Ed25519"),
    ],
)
def test_the_usual_algorithms_are_verified_with_the_issuers_key(kind: str, algorithm: str) -> None:
    key, other = new_key("k", kind), new_key("k", kind)
    token = Issuer(URL).sign(claims(), algorithm, key)
    assert verified(token, public(key))["sub"] == "robot"
    assert refusal(token, public(other)) == "the token's signature is not valid"
    header, _, signature = token.split(".")
    assert refusal(f"{header}.{encoded(claims() | {'sub': 'root'})}.{signature}", public(key))


def test_no_algorithm_without_a_key_pair_is_accepted() -> None:
    """The public key is known to everybody: as the secret of an HMAC it would let anybody sign."""
    key = new_key("k", "2048")
    assert isinstance(key, RSAKey)
    for algorithm in ("none", "None", "HS256", "HS384", "HS512", "RSA1_5", "dir", "", 5, None):
        signed = f"{encoded({'alg': algorithm, 'kid': 'k'})}.{encoded(claims())}"
        for secret in (key.as_pem(private=False), key.as_der(private=False), b"k"):
            mac = base64.urlsafe_b64encode(hmac.digest(secret, signed.encode(), hashlib.sha256)).rstrip(b"=").decode()
            assert "not accepted" in refusal(f"{signed}.{mac}", public(key))
        assert refusal(f"{signed}.", public(key))
    secret_key = {"kty": "oct", "kid": "k", "k": encoded("secret")}
    assert verification.read_keys(json.dumps({"keys": [secret_key]}).encode()) == ()


def test_the_algorithm_must_belong_to_the_type_of_the_key() -> None:
    rsa, curve = new_key("k", "2048"), new_key("k", "P-256")
    for token, published in (
        (Issuer(URL).sign(claims(), "RS256", rsa), public(curve)),
        (Issuer(URL).sign(claims(), "ES256", curve), public(rsa)),
        (Issuer(URL).sign(claims(), "ES256", curve), public(new_key("k", "P-384"))),
        (Issuer(URL).sign(claims(), "RS256", rsa), public(rsa, alg="RS512")),
        (Issuer(URL).sign(claims(), "RS256", rsa), public(rsa, use="enc")),
        (Issuer(URL).sign(claims(), "RS256", rsa), public(rsa, key_ops=["encrypt"])),
        (Issuer(URL).sign(claims(), "RS256", rsa), public(rsa, kid="other")),
    ):
        assert refusal(token, published) == "the token's signature is not valid"


def test_a_token_without_a_key_id_is_tried_with_the_few_keys_that_fit() -> None:
    key = new_key("k")
    token = Issuer(URL).sign(claims(), "ES256", key, kid=None)
    assert verified(token, public(new_key("a")), public(new_key("b", "2048")), public(key))["sub"] == "robot"
    others = [public(new_key(f"k{number}")) for number in range(verification.MAX_TRIED_KEYS)]
    assert refusal(token, *others, public(key)) == "the token's signature is not valid"


def test_two_keys_with_one_id_are_both_tried() -> None:
    key = new_key("k")
    token = Issuer(URL).sign(claims(), "ES256", key)
    assert verified(token, public(new_key("k")), public(key))["sub"] == "robot"


def test_the_header_cannot_bring_its_own_key() -> None:
    key, mine = new_key("k"), new_key("k")
    for header in ({"jwk": public(mine)}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example"}):
        assert refusal(Issuer(URL).sign(claims(), "ES256", mine, **header), public(key))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "a.b",
        "....",
        "ä.ö.ü",
        "x" * 20_000,
        f"{encoded({'alg': 'ES256'})}.{encoded([])}.AA",
        f"{encoded({'alg': 'ES256'})}.{encoded({'iss': 5})}.AA",
        f"{encoded({'alg': 'ES256', 'kid': 5})}.{encoded({'iss': URL})}.AA",
        f"{encoded({'alg': 'ES256', 'crit': ['b64'], 'b64': False})}.{encoded({'iss': URL})}.AA",
        f"{encoded({'alg': 'ES256'})}.{base64.urlsafe_b64encode(b'[' * 6000).decode()}.AA",
    ],
)
def test_garbage_is_refused_before_any_key_is_looked_at(token: str) -> None:
    with pytest.raises(TokenRefused):
        verification.parse(token)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": 5}', b"\xff", b"[" * 100_000])
def test_a_document_without_keys_is_refused(document: bytes) -> None:
    with pytest.raises(TokenRefused):
        verification.read_keys(document)


def test_keys_that_cannot_verify_are_left_out_and_private_ones_become_public() -> None:
    good = new_key("good")
    listed = [
        5,
        {},
        {"kty": "RSA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": "x" * 170, "e": "AQAB"},
        public(good, kid=5),
        public(good, key_ops=5),
        good.as_dict(private=True),
    ]
    (found,) = verification.read_keys(json.dumps({"keys": listed}).encode())
    assert isinstance(found.key, ECKey)
    assert not found.key.is_private


def test_another_signature_of_the_same_token_is_the_same_token() -> None:
    """ECDSA has two valid signatures for one text, and anybody can compute the second one from the first."""
    token = Issuer(URL).sign(claims(), "ES256", new_key("k"))
    assert verification.parse(token).sha256 == verification.parse(token.rpartition(".")[0] + ".AAAA").sha256
