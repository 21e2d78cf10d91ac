"""The address of an archive opens one version for a few minutes, and nothing else."""

import base64
import hashlib

import msgspec
import pytest

from terracrew.errors import NotFound
from terracrew.server.registry import links
from terracrew.server.terminals import links as terminals
from tests.server.application import Application, on_one
from tests.server.registry.publisher import download, published

pytestmark = [pytest.mark.feature("P7.access"), on_one]
PATH = "team/vpc/aws"


async def test_the_address_gives_exactly_the_files_of_its_version(application: Application) -> None:
    await published(application, PATH, "1.0.0")
    location = await download(application.admin, PATH, "1.0.0")
    assert isinstance(location, str)
    assert location.startswith("/api/registry/v1/archives/")
    answer = await application.stranger().get(location)
    assert answer.status_code == 200
    wanted = await application.scalar("SELECT sha256 FROM published_versions")
    assert hashlib.sha256(answer.content).hexdigest() == wanted
    assert answer.headers["Cache-Control"] == "no-store"
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    # Clients leave out the parameter that is only for them.
    assert (await application.stranger().get(location.partition("?")[0])).content == answer.content


async def test_it_ends(application: Application) -> None:
    keys = application.server.keys
    sealed = links.seal(keys, "pbv_1", 1_000.0)
    assert links.opened(keys, sealed, 1_000.0 + links.LINK_SECONDS) == "pbv_1"
    with pytest.raises(NotFound):
        links.opened(keys, sealed, 1_001.0 + links.LINK_SECONDS)


async def test_one_that_was_changed_or_is_for_something_else_opens_nothing(application: Application) -> None:
    keys = application.server.keys
    sealed = links.seal(keys, "pbv_1", 1_000.0)
    whole = base64.urlsafe_b64decode(sealed + "==")
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 7)]
    ann = (await application.person("ann", "owner")).principal
    other = terminals.for_caller(keys, ann, "plan", "pbv_1", 9e9)
    plain = base64.urlsafe_b64encode(msgspec.json.encode(links.SealedDownload("pbv_1", 9e9))).decode()
    texts = [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in changed]
    for text in (*texts, other, plain, "", "x", "ä", "A" * 100_000, sealed[:-4]):
        with pytest.raises(NotFound):
            links.opened(keys, text, 1_000.0)
    with pytest.raises(NotFound):
        terminals.opened(keys, sealed, ("plan", "configuration", "state"), 1_000.0)
