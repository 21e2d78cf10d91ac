"""`federation_per_s`: exchanges of tokens of another issuer over HTTP, for each second of the server's processor time.

Every token is another one, so that each exchange verifies a signature, remembers the token durably and signs an access token. The
rate is that of one core: on a machine whose cores are shared with the load generator, the time on the clock says less.
"""

import asyncio
import time
from urllib.parse import urlencode

import psutil

from terracrew.client.http import Api
from tests.bench.filled_server import Env, Filled, filled
from tests.bench.wire import HttpClient
from tests.machine import oidc_issuer
from tests.machine.oidc_issuer import Issuer

EXCHANGES = 4_000
WARM_UP = 200
CONNECTIONS = 32
_FORM = "application/x-www-form-urlencoded"


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    with oidc_issuer.running() as issuer:
        environment = {"TERRACREW_SERVER_FEDERATION_PRIVATE_ISSUERS": issuer.url}
        for kind in ("sqlite", "postgres"):
            with filled(env, kind, 1, modules=1, environment=environment) as there:
                found[f"federation_per_s.{kind}"] = _rate(env, kind, there, issuer)
    return found


def _rate(env: Env, kind: str, there: Filled, issuer: Issuer) -> float:
    api = Api(there.system.url, there.token)
    account = api.post("/service-accounts", {"name": "ci", "group": ""})
    policy = {"issuer": issuer.url, "audience": "bench", "claims": {"sub": "rob*", "ref": "main"}}
    api.post(f"/service-accounts/{account['id']}/trust-policies", policy)
    client_id = f"{account['organization_id']}:{account['id']}"
    forms = [_form(issuer, client_id, number) for number in range(WARM_UP + EXCHANGES)]
    asyncio.run(_exchange(there.system.url, forms[:WARM_UP]))
    process = psutil.Process(there.process.pid)
    before, began = process.cpu_times(), time.perf_counter()
    asyncio.run(_exchange(there.system.url, forms[WARM_UP:]))
    after, elapsed = process.cpu_times(), time.perf_counter() - began
    cpu = after.user + after.system - before.user - before.system
    env.say(f"federation_per_s.{kind}: {EXCHANGES / cpu:.0f} ({EXCHANGES / elapsed:.0f} by the clock)")
    return EXCHANGES / cpu


def _form(issuer: Issuer, client_id: str, number: int) -> bytes:
    fields = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "client_id": client_id,
        "subject_token": issuer.token("bench", jti=str(number), ref="main"),
    }
    return urlencode(fields).encode()


async def _exchange(url: str, forms: list[bytes]) -> None:
    waiting = list(forms)

    async def some() -> None:
        client = await HttpClient.open(url, "")
        while waiting:
            await client.call("POST", "/connect/token", waiting.pop(), _FORM)
        client.close()

    await asyncio.gather(*(some() for _ in range(CONNECTIONS)))
