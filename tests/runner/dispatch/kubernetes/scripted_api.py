"""An API server of Kubernetes that answers as a test says, for what a real cluster does too seldom."""

import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from terracrew.kubernetes_api.api import KubernetesApi
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig


@contextlib.asynccontextmanager
async def served(handle: Callable[[web.Request], Awaitable[web.StreamResponse]], folder: Path) -> AsyncGenerator[None]:
    """Answer every request with `handle`, and write the kubeconfig that `client` reads into the folder."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(document))
    try:
        yield
    finally:
        await runner.cleanup()


def client(folder: Path) -> KubernetesApi:
    return KubernetesApi(Kubeconfig(folder / "kubeconfig", "", {}), "ns")
