"""Whatever is sent to the API, it answers by its own document: never with a failure of its own, and errors as problems."""

# schemathesis leaves types out
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from terracrew.server.http.problem import MEDIA_TYPE
from tests.e2e import modules
from tests.e2e.system import System, running
from tests.thoroughness import IS_THOROUGH

pytestmark = pytest.mark.feature("X4.bounded")

ENDLESS = ("/api/v1/events", "/api/v1/jobs/{job}/log/stream")
"""Streams that end only when the client goes."""
OTHER_ERRORS = ("/connect/token", "/connect/device")
"""In the words of RFC 6749 instead."""
CONFORMS = [
    *CHECKS.get_by_names(["not_a_server_error"]),
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

_known: dict[str, str] = {}
"""Names and ids of things that exist, by path parameter: half of the requests are about them."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(Path(tmp_path_factory.mktemp("fuzz"))) as found:
        found.start_server(runner=False)
        found.module("team/web", modules.quick())
        job = found.run("team/web")
        api = found.api
        account = api.post("/service-accounts", {"name": "bot", "group": "team"})["id"]
        runner = api.post("/runners", {"name": "crew"})["id"]
        _known.update(
            group="team",
            module="team/web",
            job=job,
            runner=runner,
            once_token=api.post(f"/runners/{runner}/once-tokens", {})["id"],
            account_id=account,
            secret_id=api.post(f"/service-accounts/{account}/secrets", {})["id"],
            policy_id=api.post(
                f"/service-accounts/{account}/trust-policies",
                {"issuer": "https://ci.example.com", "claims": {"sub": "ours"}},
            )["id"],
            user_id=api.post("/users", {"name": "ada"})["user"]["id"],
            role_id=api.post("/roles", {"principal": "ada", "role": "viewer"})["id"],
            token_id=api.post("/tokens", {"name": "spare"})["id"],
            attempt="1",
            release=api.post("/releases", {"version": "0.0.1"})["version"],
            release_token=api.post("/release-tokens", {"name": "ci"})["id"],
        )
        yield found


@schemathesis.serializer("application/gzip")
def as_bytes(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@schemathesis.hook
def map_path_parameters(_context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    return path_parameters and {
        name: _known[name] if name in _known and len(str(value)) % 2 else value
        for name, value in path_parameters.items()
    }


def fuzz(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=5 if IS_THOROUGH else 2,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def answers(case: Any) -> None:
        answer: Response = case.call(headers=headers, timeout=10)
        case.validate_response(answer, checks=CONFORMS)
        if answer.status_code >= 400 and operation.path not in OTHER_ERRORS:
            assert answer.headers["content-type"] == [MEDIA_TYPE]
            assert answer.json()["status"] == answer.status_code
            assert answer.json()["detail"]

    answers()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_the_api_answers_by_its_own_document(system: System, mode: GenerationMode) -> None:
    token = (system.data / "admin.token").read_text().strip()
    failures: list[BaseException] = []
    document: Any = schemathesis.openapi.from_url(f"{system.url}/schema/openapi.json").exclude(path=list(ENDLESS))
    for found in document.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not operation.body and not list(operation.iter_parameters()):
            continue  # nothing of it can be wrong
        try:
            fuzz(operation, mode, {} if operation.path in OTHER_ERRORS else {"Authorization": f"Bearer {token}"})
        except (Exception, FailureGroup) as error:  # each of them is told
            error.add_note(f"in {operation.method.upper()} {operation.path}")
            failures.append(error)
    if failures:
        raise BaseExceptionGroup("answers that the document does not allow", failures)
