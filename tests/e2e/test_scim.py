"""The conformance tests of scim2-tester against a real server, as it answers an identity provider."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from scim2_client.client import BaseSyncSCIMClient
from scim2_tester import Status, check_server

from tests.e2e.system import System, running

BASE = "/api/scim/v2"


class Client(BaseSyncSCIMClient):
    """Sends the requests of the tests over the network."""

    def __init__(self, http: httpx.Client, **given: Any) -> None:
        super().__init__(**given)
        self._http = http

    def _stays_under_base_url(self, endpoint: str) -> bool:
        return True

    def _parse_json(self, response: Any) -> Any:
        return response.json()

    def request(self, method: str, url: str, **kwargs: Any) -> Any:
        return self._http.request(method, f"{BASE}/{url.lstrip('/')}", **kwargs)


@pytest.fixture
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(tmp_path_factory.mktemp("scim")) as found:
        found.start_server(runner=False)
        yield found


@pytest.mark.timeout(120)
@pytest.mark.feature("P1.scim")
def test_the_server_conforms_to_the_standard(system: System) -> None:
    account = system.api.post("/service-accounts", {"name": "scim"})
    secret = system.api.post(f"/service-accounts/{account['id']}/secrets", {})["client_secret"]
    system.api.replace("/provisioning", {"service_account": account["id"]})
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=system.url, headers=headers, timeout=30) as http:
        results = check_server(Client(http))
    wrong = [f"{each.title}: {each.reason}" for each in results if each.status in (Status.ERROR, Status.CRITICAL)]
    assert not wrong, "\n".join(wrong)
    assert sum(each.status is Status.SUCCESS for each in results) > 50, results
