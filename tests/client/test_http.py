"""The HTTP client against a real server: errors come back as raised, repeats do no harm, secrets stay secret."""

import io
import socket
import time
import traceback

import pytest

from terracrew import errors
from terracrew.client.address import segment
from terracrew.client.http import Api
from terracrew.client.sse import OPEN, Event
from tests.client.scripted_server import Asked, ScriptedServer

SECRET = "tcu_very-secret-token"


# Packages that other tests have imported may add private errors of their own; those never cross the network.
SHARED_ERRORS = [(code, kind) for code, kind in errors.tree().items() if kind.__module__ == errors.__name__]


@pytest.mark.parametrize(("code", "kind"), SHARED_ERRORS)
def test_every_error_of_the_tree_comes_back_as_itself(
    server: ScriptedServer, code: str, kind: type[errors.TerracrewError]
) -> None:
    server.then(*[lambda asked: asked.problem(kind.status, code, "what happened", place="a/b")] * 4)
    with pytest.raises(kind) as caught:
        Api(server.url).post("/jobs", {})
    assert type(caught.value) is kind
    assert caught.value.message == "what happened"
    assert caught.value.details == {"place": "a/b"}


@pytest.mark.parametrize("status", [200, 401, 403, 404, 413, 502])
def test_an_answer_that_is_not_ours_says_that_something_between_here_and_the_server_answered(
    server: ScriptedServer, status: int
) -> None:
    """A firewall's 403 was shown as "you may not", and a proxy's 404 as "there is no such module"."""
    server.then(*[lambda asked: asked.answer(status, b"<html>proxy</html>", "text/html")] * 3)
    with pytest.raises(errors.ForeignAnswer, match=rf"answered {status} .*between here and the server"):
        Api(server.url).get("/me")


def test_a_problem_with_a_code_that_only_newer_servers_have_is_told_in_its_own_words(server: ScriptedServer) -> None:
    server.then(lambda asked: asked.problem(418, "teapot", "this server makes tea"))
    with pytest.raises(errors.TerracrewError, match="this server makes tea"):
        Api(server.url).get("/me")


def test_details_that_would_break_the_error_are_left_out(server: ScriptedServer) -> None:
    server.then(lambda asked: asked.problem(409, "conflict", "no", message="x", lock="job_1"))
    with pytest.raises(errors.Conflict) as caught:
        Api(server.url).post("/jobs")
    assert caught.value.details == {"lock": "job_1"}


def test_a_path_of_the_tree_is_one_segment_and_a_query_is_encoded(server: ScriptedServer) -> None:
    server.on("GET /api/v1/modules/a%2Fb%20c%2F..?recursive=true&limit=5&group=x%2Fy", {"id": "mod_1"})
    found = Api(server.url).get(f"/modules/{segment('a/b c/..')}", recursive=True, limit=5, group="x/y", after=None)
    assert found == {"id": "mod_1"}


def test_a_list_is_read_to_its_last_page(server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs?status=QUEUED", {"items": [1, 2], "next": "c2"})
    server.on("GET /api/v1/jobs?status=QUEUED&after=c2", {"items": [3], "next": None})
    assert list(Api(server.url).list("/jobs", status="QUEUED")) == [1, 2, 3]


def test_reading_is_tried_again_when_the_server_hangs_up_or_is_busy(server: ScriptedServer) -> None:
    server.then(
        Asked.hang_up, lambda asked: asked.problem(503, "unavailable", "starting"), lambda asked: asked.answer(200, 1)
    )
    assert Api(server.url).get("/me") == 1
    assert len(server.asked) == 3


def test_a_post_is_sent_once_unless_it_carries_an_idempotency_key(server: ScriptedServer) -> None:
    server.then(Asked.hang_up)
    with pytest.raises(errors.Unreachable, match="may have been carried out"):
        Api(server.url).post("/groups", {"path": "a"})
    assert len(server.asked) == 1
    server.then(Asked.hang_up, lambda asked: asked.answer(201, {"id": "job_1"}))
    assert Api(server.url).post("/jobs", {"type": "PLAN"}, headers={"Idempotency-Key": "k"}) == {"id": "job_1"}
    assert [asked.headers["Idempotency-Key"] for asked in server.asked[1:]] == ["k", "k"]


def test_a_small_upload_is_repeated_in_parts_if_the_server_cannot_store_it(server: ScriptedServer) -> None:
    """`terracrew module create` failed at once while the object store was away for a moment."""

    def refuse(asked: Asked) -> None:
        asked.problem(503, "unavailable", "the object store does not answer")

    server.then(refuse, refuse, lambda asked: asked.answer(200, {"id": "upl_1", "part_bytes": 768, "missing": [0]}))
    server.then(lambda asked: asked.answer(204), lambda asked: asked.answer(201, {"id": "arc_1"}))
    api = Api(server.url)
    assert api.upload_in_parts("/archives", b"small", "application/gzip", target="archive") == {"id": "arc_1"}
    again = ["PUT /api/v1/uploads"] * 2 + ["PUT /api/v1/uploads/upl_1/0", "POST /api/v1/archives"]
    assert server.asked == ["POST /api/v1/archives", *again]
    server.then(*[refuse] * 4)
    with pytest.raises(errors.Unavailable, match="the object store does not answer"):
        api.upload_in_parts("/archives", b"small", "application/gzip", target="archive")


def test_a_delete_whose_answer_was_lost_has_succeeded(server: ScriptedServer) -> None:
    server.then(Asked.hang_up, lambda asked: asked.problem(404, "not_found", "gone"))
    assert Api(server.url).delete("/tokens/tok_1") is None
    with pytest.raises(errors.NotFound):
        Api(server.url).delete("/tokens/tok_1")


def test_a_repeated_put_sends_the_file_from_its_beginning(server: ScriptedServer) -> None:
    server.then(Asked.hang_up, lambda asked: asked.answer(204))
    file = io.BytesIO(b"skipped" + b"x" * 100_000)
    file.seek(7)
    Api(server.url).put("/states/1", file)
    assert [asked.body for asked in server.asked] == [b"x" * 100_000] * 2


def test_a_download_that_breaks_off_is_an_error(server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, b"whole", "text/plain"))
    whole = io.BytesIO()
    Api(server.url).download("/jobs/1/log", whole)
    assert whole.getvalue() == b"whole"
    server.then(lambda asked: asked.stream(b"ha"))
    with pytest.raises(errors.Unreachable, match="broke in the middle"):
        Api(server.url).download("/jobs/1/log", io.BytesIO())


def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(errors.Unreachable, match=f"no server answers at {url}") as caught:
            Api(url).get("/me")
    assert "terracrew up" in caught.value.details["hint"]


def test_a_server_that_says_nothing_is_given_up(server: ScriptedServer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        api = Api(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.1)
        with pytest.raises(errors.Unreachable, match="did not answer a POST"):
            api.post("/jobs")


@pytest.mark.parametrize("token", [f"{SECRET}\nX-Evil: 1", f"{SECRET} x", f"{SECRET}ü"])
def test_a_token_is_never_part_of_an_error(server: ScriptedServer, token: str) -> None:
    with pytest.raises(errors.Unauthenticated) as caught:
        Api(server.url, token).get("/me")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert server.asked == []


def test_a_token_goes_only_to_the_server_it_is_for(server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(302, Location="http://127.0.0.2:1/elsewhere"))
    with pytest.raises(errors.Invalid, match=r"redirects to http://127\.0\.0\.2:1/elsewhere"):
        Api(server.url, SECRET).get("/me")
    assert server.asked[0].headers["Authorization"] == f"Bearer {SECRET}"


def test_a_token_can_be_asked_for_at_each_request(server: ScriptedServer) -> None:
    tokens = iter(["first", "second"])
    server.on("GET /api/v1/me", {})
    api = Api(server.url, lambda: next(tokens))
    api.get("/me")
    api.get("/me")
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    "url", ["localhost:7400", "ftp://x", "http://", "http://u:p@host", "http://host:port", "http://h/?q=1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        Api(url)
    assert "u:p" not in caught.value.message


def test_a_stream_is_resumed_after_its_last_event(server: ScriptedServer) -> None:
    server.then(
        lambda asked: asked.stream(
            b"id: 1.1\nevent: log\ndata: a\n\n", b"id: 1.2\nevent: log\ndata: b\n\nevent: log\nda"
        ),
        Asked.hang_up,
        lambda asked: asked.problem(503, "unavailable", "starting"),
        lambda asked: asked.stream(b"id: 1.3\nevent: log\ndata: c\n\nevent: end\ndata: -\n\n"),
    )
    found: list[Event] = []
    for event in Api(server.url).events("/jobs/1/log/stream"):
        found.append(event)
        if event.name == "end":
            break
    assert [event.data for event in found if event is not OPEN] == ["a", "b", "c", "-"]
    assert found.count(OPEN) == 2
    assert [asked.headers["Last-Event-ID"] for asked in server.asked] == [None, "1.2", "1.2", "1.2"]


def test_a_silent_stream_is_opened_again(server: ScriptedServer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        events = Api(f"http://127.0.0.1:{silent.getsockname()[1]}").events("/events", quiet=0.1, max_outage_seconds=0.2)
        with pytest.raises(errors.Unreachable):
            next(events)


def test_a_stream_that_was_quiet_for_long_is_resumed_after_an_outage(server: ScriptedServer) -> None:
    """Symptom: `job wait` gave up at once when the server was restarted, if nothing had happened there for five minutes."""

    def stay_quiet(asked: Asked) -> None:
        asked.stream(b"event: jobs\ndata: first\n\n")
        for _ in range(3):
            time.sleep(0.1)
            asked.handler.wfile.write(b"2\r\n:\n\r\n")  # it keeps the connection alive, and is no event
            asked.handler.wfile.flush()

    server.then(stay_quiet, lambda asked: asked.problem(503, "unavailable", "starting"))
    server.then(lambda asked: asked.stream(b"event: jobs\ndata: second\n\n"))
    found: list[str] = []
    for event in Api(server.url).events("/events", max_outage_seconds=0.25):
        if event is not OPEN:
            found.append(event.data)
        if len(found) == 2:
            break
    assert found == ["first", "second"]


def test_a_stream_that_may_not_be_read_is_an_error_at_once(server: ScriptedServer) -> None:
    server.then(lambda asked: asked.problem(404, "not_found", "no such job"))
    with pytest.raises(errors.NotFound, match="no such job"):
        next(Api(server.url).events("/jobs/x/log/stream"))


def test_a_server_that_says_when_to_come_again_is_taken_at_its_word(server: ScriptedServer) -> None:
    body = {"status": 503, "code": "unavailable", "detail": "the database does not answer"}
    server.then(
        lambda asked: asked.answer(503, body, "application/problem+json", **{"Retry-After": "1"}),
        lambda asked: asked.answer(200, {"id": 1}),
    )
    began, said = time.monotonic(), list[str]()
    api = Api(server.url)
    api.on_wait = lambda error: said.append(error.message)
    assert api.get("/jobs/1") == {"id": 1}
    assert time.monotonic() - began >= 1
    assert said == ["the database does not answer"]
    server.then(lambda asked: asked.answer(429, {}, **{"Retry-After": "600"}))
    with pytest.raises(errors.ForeignAnswer):
        api.get("/jobs/1")
    assert time.monotonic() - began < 10, "nobody sits there for ten minutes"


def test_whoever_has_patience_outlasts_more_than_a_few_answers(server: ScriptedServer) -> None:
    def starting(asked: Asked) -> None:
        asked.problem(503, "unavailable", "starting")

    server.then(*[starting] * 5, lambda asked: asked.answer(200, {"id": 1}))
    with pytest.raises(errors.Unavailable):
        Api(server.url).get("/jobs/1")
    api = Api(server.url)
    api.max_outage_seconds = 60
    assert api.get("/jobs/1") == {"id": 1}
