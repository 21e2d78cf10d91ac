"""A person who looks at pages with a session, and jobs to look at."""

import re

import httpx

from terracrew.server.identity.people import service as identity
from tests.server.application import Application


class Visitor(httpx.AsyncClient):
    """A browser without scripts: it keeps cookies, and sends the token of the last page's forms."""

    csrf = ""

    async def see(self, path: str, status: int = 200) -> str:
        answer = await self.get(path)
        assert answer.status_code == status, answer.text
        if found := re.search(r'name="_csrf" value="(\w*\.[0-9a-f]+)"', answer.text):
            self.csrf = found[1]
        return answer.text

    async def see_job(self, job_id: str) -> str:
        return await self.see(f"/dashboard/jobs/{job_id}")

    async def submit(self, path: str, **fields: str) -> httpx.Response:
        return await self.post(path, data={"_csrf": self.csrf, **fields})


def visitor(application: Application) -> Visitor:
    return Visitor(transport=application.transport(), base_url="http://127.0.0.1:7400")


async def logged_in(application: Application, name: str = "admin") -> Visitor:
    made = visitor(application)
    token = await identity.make_link(application.server.db, name)
    answer = await made.submit(f"/login/link/{token}", password="correct horse battery", again="correct horse battery")
    assert answer.status_code == 303, answer.text
    return made
