"""The helper for AWS asks STS with the real library, over HTTP. Only the answers of STS are ours: no emulator knows this request."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from terracrew.errors import ProgramFailed
from terracrew.runner.connection import credential_helper
from tests.credential_helpers.programs import command

pytestmark = pytest.mark.feature("A4.aws")
ISSUER = "https://example.tokens.sts.global.api.aws"
CLAIMS = base64.urlsafe_b64encode(json.dumps({"iss": ISSUER}).encode()).decode().rstrip("=")
TOKEN = f"eyJhbGciOiJFUzM4NCJ9.{CLAIMS}.QVdT"
AUDIENCE = "https://terracrew.example.com"
ANSWER = f"""<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetWebIdentityTokenResult>
<WebIdentityToken>{TOKEN}</WebIdentityToken><Expiration>2030-01-01T00:00:00Z</Expiration>
</GetWebIdentityTokenResult></GetWebIdentityTokenResponse>"""
REFUSAL = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>OutboundWebIdentityFederationDisabled</Code><Message>It is not enabled</Message></Error></ErrorResponse>"""


class Sts(ThreadingHTTPServer):
    """Answers the request for a token of every role whose access key is `AKIAGOOD`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StsRequest)
        self.forms: list[dict[str, list[str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class StsRequest(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Sts)
        self.server.forms.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        is_good = "Credential=AKIAGOOD/" in self.headers.get("Authorization", "")
        body = (ANSWER if is_good else REFUSAL).encode()
        self.send_response(200 if is_good else 403)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name in the library)
        """Print nothing."""


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAGOOD")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2-hunter2")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Sts() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("dashes", ["-", "--"])
async def test_the_token_of_sts_is_printed(sts: Sts, dashes: str) -> None:
    options = (f"{dashes}region", "eu-central-1", f"{dashes}sts-endpoint", sts.url, f"{dashes}aud", AUDIENCE)
    assert await credential_helper.token(command("aws", *options)) == TOKEN
    (form,) = sts.forms
    assert form["Action"] == ["GetWebIdentityToken"]
    assert form["Audience.member.1"] == [AUDIENCE]
    assert (form["SigningAlgorithm"], form["DurationSeconds"]) == (["ES384"], ["300"])


async def test_the_endpoint_is_the_identity_provider_that_the_trust_policy_names(sts: Sts) -> None:
    """`-endpoint=https://my-provider` was taken for the address of STS, and the request for a token went there."""
    options = ("-region=us-east-2", f"-sts-endpoint={sts.url}", "-aud=terracrew")
    assert await credential_helper.token(command("aws", *options, f"-endpoint={ISSUER}/")) == TOKEN
    with pytest.raises(ProgramFailed) as caught:
        await credential_helper.token(command("aws", *options, "-endpoint=https://my-provider.example"))
    assert "https://my-provider.example, but AWS signs as https://example.tokens.sts" in caught.value.message
    assert TOKEN not in caught.value.message


async def test_the_reason_of_a_refusal_is_reported_without_the_secret_key(
    sts: Sts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    with pytest.raises(ProgramFailed) as caught:
        await credential_helper.token(command("aws", "--sts-endpoint", sts.url, "--aud", AUDIENCE))
    assert "ended with exit status 1: AWS gave no token:" in caught.value.message
    assert "OutboundWebIdentityFederationDisabled" in caught.value.message
    assert "hunter2" not in caught.value.message
