"""What is wrong with an object store is said in one line at the start, with what to do and without secrets."""

import http.server
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from terracrew.errors import Invalid, Unavailable
from terracrew.server.objects import open_objects

SECRET = "the-secret-key"
Answering = Callable[[int, str, str], AbstractContextManager[None]]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Let S3 answer requests with this method with an error, as it words them, and the others with nothing."""

    @contextmanager
    def serve(status: int, code: str, method: str) -> Generator[None]:
        body = (
            f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No {SECRET}</Message>"
            "<AWSAccessKeyId>AKIAEXAMPLE</AWSAccessKeyId></Error>"
        ).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                is_refused = self.command == method
                self.send_response(status if is_refused else 200)
                self.send_header("Content-Length", str(len(body) if is_refused else 0))
                self.send_header("ETag", '"1"')
                self.end_headers()
                self.wfile.write(body if is_refused and self.command != "HEAD" else b"")

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815  (the library's names)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's signature)
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            configure(monkeypatch, server.server_address[1])
            yield
            server.shutdown()

    return serve


def configure(monkeypatch: pytest.MonkeyPatch, port: int, **others: str) -> None:
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        **others,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("status", "code", "method", "words"),
    [
        (
            403,
            "AccessDenied",
            "PUT",
            "object_store: s3://bucket/some/prefix: a test object cannot be written: access is denied (AccessDenied): "
            "the server needs s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket",
        ),
        (403, "AccessDenied", "GET", "a test object cannot be read: access is denied (AccessDenied)"),
        (
            403,
            "InvalidAccessKeyId",
            "PUT",
            "there are no valid credentials for it (InvalidAccessKeyId): set AWS_ACCESS",
        ),
        (403, "SignatureDoesNotMatch", "PUT", "there are no valid credentials for it (SignatureDoesNotMatch)"),
        (404, "NoSuchBucket", "PUT", "its bucket does not exist: create it, or correct the setting"),
        (301, "PermanentRedirect", "PUT", "its bucket is in another region: set AWS_REGION for the server"),
    ],
)
async def test_the_start_says_what_is_missing(
    answering: Answering, status: int, code: str, method: str, words: str
) -> None:
    """The server started with any store, and a request was answered 500, with 50 lines of traceback in the log."""
    with answering(status, code, method), pytest.raises(Invalid) as refused:
        await open_objects("s3://bucket/some/prefix").try_out()
    message = refused.value.message
    assert words in message
    assert "\n" not in message
    assert SECRET not in message
    assert "AKIAEXAMPLE" not in message


async def test_a_store_that_answers_reads_and_no_writes_stays_away_until_it_takes_one(answering: Answering) -> None:
    """Symptom: `/readyz` answered 200, and the log said that the store is away and back at each write, as one without a quorum does."""
    with answering(503, "SlowDownWrite", "PUT"):
        objects = open_objects("s3://bucket/some/prefix")
        with pytest.raises(Unavailable, match="does not answer"):
            await objects.put("archives/arc_1", b"x")
        assert await objects.get("archives/arc_1") == b""
        assert "does not answer" in objects.health.problem
        assert "does not answer" in await objects.problem()


async def test_an_endpoint_that_nobody_listens_at_is_named_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure(monkeypatch, 9)
    with pytest.raises(Unavailable) as refused:
        await open_objects("s3://key:password@nope").try_out()
    message = refused.value.message
    assert message == "object_store: s3://nope: it does not answer at 127.0.0.1:9 (Connection refused)"
    assert refused.value.details["is_away"], "the start is tried again"
    assert "password" not in caplog.text


async def test_an_endpoint_without_tls_and_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, 9, AWS_ALLOW_HTTP="false")
    with pytest.raises(Invalid, match="its endpoint has no TLS: set AWS_ALLOW_HTTP=true"):
        await open_objects("s3://nope").try_out()
    configure(monkeypatch, 9, AWS_METADATA_ENDPOINT="http://127.0.0.1:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(Invalid, match="there are no valid credentials for it: set AWS_ACCESS_KEY_ID"):
        await open_objects("s3://nope").try_out()


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="object_store: file:///proc/1/nope cannot be made: No such file or directory"):
        open_objects("file:///proc/1/nope")
    (tmp_path / "probes").write_text("a file where a folder is needed")
    with pytest.raises(Invalid, match=f"object_store: {tmp_path.as_uri()}: a test object cannot be written: "):
        await open_objects(tmp_path.as_uri()).try_out()
