"""A person with a hostile browser and a hostile provider."""

import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from terracrew.api.sso import ProviderDetails
from tests.machine.oidc_issuer import Issuer
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, visitor


class Crook:
    """Has a provider, a browser, and the power to answer whatever helps."""

    def __init__(self, application: Application, issuer: Issuer, made: ProviderDetails) -> None:
        self.application, self.issuer, self.made = application, issuer, made
        self.browser: Visitor = visitor(application)
        self.asked: dict[str, str] = {}

    async def begin(self) -> None:
        answer = await self.browser.get(f"/login/sso/{self.made.id}", params={"next": "/dashboard/jobs"})
        assert answer.status_code == 303, answer.text
        self.asked = {name: each[0] for name, each in parse_qs(urlsplit(answer.headers["Location"]).query).items()}

    def token(self, **claims: Any) -> str:
        usual = {"nonce": self.asked["nonce"], "preferred_username": "mallory", "sub": "m1"}
        return self.issuer.token("crew", **(usual | claims))

    def answer(self, id_token: str) -> None:
        body = json.dumps({"id_token": id_token, "access_token": "a", "token_type": "Bearer"}).encode()
        self.issuer.answers["/token"] = 200, {}, body

    async def come_back(self, id_token: str | None = None, **query: str) -> httpx.Response:
        if id_token is not None:
            self.answer(id_token)
        given = {"code": "c", "state": self.asked["state"]} | query
        return await self.browser.get(f"/login/sso/{self.made.id}/callback", params=given)


def refused(answer: httpx.Response, words: str) -> None:
    assert answer.status_code == 403, answer.text
    assert words in answer.text
    assert not any("session" in each for each in answer.headers.get_list("set-cookie"))


def led(page: str) -> str:
    """Where a page leads by itself, which its link leads to as well."""
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
    assert found is not None, page
    assert page.count(found[1]) == 2
    return unescape(found[1])
