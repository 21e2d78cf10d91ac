"""`terracrew-helper-aws`: prints a token that AWS signs for the role or user whose credentials this machine has.

It calls GetWebIdentityToken of STS, which an account must allow once (`aws iam enable-outbound-web-identity-federation`).
The credentials come from where every AWS program looks for them: variables, `~/.aws`, the role of the instance, task or pod.
"""

import argparse
import base64
import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

LIFETIME_SECONDS = 300
CONNECT_SECONDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options().parse_args(_with_two_dashes(sys.argv[1:] if arguments is None else arguments))
    try:
        boto3: Any = importlib.import_module("boto3")
        config: Any = importlib.import_module("botocore.config")
        exceptions: Any = importlib.import_module("botocore.exceptions")
    except ImportError:
        print("this helper needs boto3: install terracrew[aws]", file=sys.stderr)
        return 2
    try:
        bounded = config.Config(
            connect_timeout=CONNECT_SECONDS, read_timeout=CONNECT_SECONDS, retries={"total_max_attempts": 2}
        )
        sts = boto3.session.Session().client(
            "sts", region_name=options.region, endpoint_url=options.sts_endpoint, config=bounded
        )
        answer = sts.get_web_identity_token(
            Audience=[options.aud], SigningAlgorithm=options.algorithm, DurationSeconds=LIFETIME_SECONDS
        )
    except (exceptions.BotoCoreError, exceptions.ClientError, ValueError) as error:
        print(f"AWS gave no token: {error}", file=sys.stderr)
        return 1
    token = str(answer["WebIdentityToken"])
    if options.endpoint and (issuer := _issuer(token)).rstrip("/") != options.endpoint.rstrip("/"):
        print(
            f"--endpoint is the identity provider that the trust policy names, {options.endpoint}, but AWS signs as {issuer}: "
            "name that issuer in both, or give another address of STS as --sts-endpoint",
            file=sys.stderr,
        )
        return 1
    print(json.dumps({"token": token}))
    return 0


def _issuer(token: str) -> str:
    """Return the `iss` of a token, unverified: the server verifies it. Returns an empty text if there is none."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims.get("iss", ""))
    except (IndexError, ValueError, AttributeError):
        return ""


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="terracrew-helper-aws", description="Prints a token that AWS signs, as JSON.")
    parser.add_argument("--region", default="us-east-1", help="the region of STS [us-east-1]")
    parser.add_argument(
        "--endpoint", help="the identity provider: the issuer of the trust policy. The token must be of it"
    )
    parser.add_argument("--sts-endpoint", help="the address of STS, if it is another one")
    parser.add_argument("--aud", required=True, help="the audience of the token: that of the trust policy")
    parser.add_argument("--algorithm", default="ES384", choices=("ES384", "RS256"), help="how AWS signs it [ES384]")
    return parser


def _with_two_dashes(arguments: Sequence[str]) -> list[str]:
    """Accept an option with one dash, too: `-region eu-central-1`."""
    return [
        f"-{each}" if each.startswith("-") and not each.startswith("--") and len(each) > 2 else each
        for each in arguments
    ]
