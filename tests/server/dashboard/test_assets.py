"""Static files: vendored as they were published, addressed by hash, kept for ever."""

import hashlib
import re
from pathlib import Path

import pytest

from terracrew.server.dashboard import assets
from tests.server.application import Application

STATIC = Path(assets.__file__).parent / "static"


def test_every_vendored_file_is_the_one_that_was_published() -> None:
    readme = (STATIC / "vendor" / "README.md").read_text("utf-8")
    noted = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", readme, re.MULTILINE))
    files = {file.name for file in (STATIC / "vendor").iterdir() if file.suffix in (".js", ".woff2")}
    assert files == set(noted)
    for name, digest in noted.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name


def test_a_template_that_names_a_missing_file_fails_at_once() -> None:
    with pytest.raises(KeyError, match=r"nowhere\.js"):
        assets.url("nowhere.js")


def test_no_style_sheet_or_script_of_ours_reaches_for_another_host() -> None:
    for file in STATIC.rglob("*"):
        if file.suffix in (".css", ".js") and file.parent.name != "vendor":
            found = re.findall(
                r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9.-]+\.[a-z]{2,}", file.read_text("utf-8")
            )
            assert not found, f"{file.name}: {found}"


async def test_a_file_is_kept_for_ever_at_its_hash_and_not_at_all_at_another(application: Application) -> None:
    stranger = application.stranger()
    found = await stranger.get(assets.url("app.css"))
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in found.headers["cache-control"]
    assert found.headers["content-encoding"] == "gzip"
    plain = await stranger.get(assets.url("app.css"), headers={"Accept-Encoding": "gzip;q=0"})
    assert ("content-encoding" in plain.headers, plain.text) == (False, found.text)
    old = await stranger.get("/static/0123456789abcdef/app.css")
    assert (old.status_code, old.text) == (200, found.text)
    assert old.headers["cache-control"] == "no-store"
    assert (await stranger.get("/static/x/../../render.py")).status_code == 404
    assert (await stranger.get("/static/x/nowhere.css")).status_code == 404
