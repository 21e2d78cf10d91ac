"""Versions of engines, with a real server and real runners: chosen, installed on demand, and refused."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.toolchains import cache, discovery
from tests.e2e import modules
from tests.e2e.system import System, eventually
from tests.machine import engines
from tests.toolchains.release_site import ReleaseSite, put, zipped

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
NEW = "1.12.99"
ARCHIVE = f"/v{NEW}/tofu_{NEW}_{'_'.join(cache.system())}.zip"


def program(tofu: str, version: str) -> bytes:
    """The real OpenTofu, which says that it is of another version."""
    answer = f'[ "$1" = version ] && echo \'{{"terraform_version": "{version}"}}\' && exit'
    return f'#!/bin/sh\n{answer}\nexec {tofu} "$@"\n'.encode()


@pytest.fixture
def site(tofu: str) -> Iterator[ReleaseSite]:
    """A release site that has one more version of OpenTofu. Nobody signs it, so its users pin it by its hash."""
    site = ReleaseSite()
    site.files[ARCHIVE] = zipped({"tofu": program(tofu, NEW)})
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


@pytest.mark.feature("J4.version", "J4.install", "J4.missing")
def test_a_missing_version_is_installed_on_demand_and_waited_for_otherwise(
    system: System, site: ReleaseSite, tofu: str
) -> None:
    system.start_server(runner=False)
    sha256 = hashlib.sha256(site.files[ARCHIVE]).hexdigest()
    machine = system.directory / "machine"
    put(machine, content=program(tofu, "1.12.6"))
    own = {
        "TERRACREW_CACHE": str(system.directory / "cache"),
        "TERRACREW_TOFU_RELEASES": site.url,
        "TERRACREW_TOFU_SHA256": sha256,
        "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS": f'["{machine}"]',
        "TERRACREW_EXECUTOR__READ_PATHS": f'["{Path(tofu).parent}"]',  # the programs of this test run the real one
        "PATH": "/usr/bin:/bin",
    }
    credentials = system.register_runner(allow_multiple_instances=True)
    system.start_runner(credentials | own, "never")
    system.module("app", modules.quick(), engine_version=f">= {NEW}")
    waiting = system.run("app", "APPLY")
    eventually(lambda: "no_engine" in str(system.job(waiting)["reason"]), what="the reason")
    text = system.job(waiting)["reason"]["text"]
    assert f"no online runner has the engine tofu >= {NEW}" in text
    assert f"terracrew engine install tofu --version {NEW}" in text
    assert site.asked == [], "nothing is downloaded by a runner that may not install anything"
    system.start_runner(credentials | own | {"TERRACREW_ENGINE__INSTALL": "on-demand"}, "on-demand")
    ended = system.wait(waiting)
    log = system.log(waiting)
    assert ended["status"] == "SUCCEEDED", log
    assert ended["engine_version"] == NEW
    assert ended["instance_name"] == "on-demand"
    assert f"This runner does not have tofu {NEW}, so it is installed first" in log
    assert f"OpenTofu {NEW} is installed" in log
    downloads = len(site.asked)
    again = system.wait(system.run("app"))
    assert (again["status"], again["engine_version"]) == ("SUCCEEDED", NEW)
    assert len(site.asked) == downloads, "it is installed once"
    system.module("any", modules.quick())
    any_version = system.wait(system.run("any"))
    assert any_version["engine_version"] == "1.12.6"


@pytest.mark.feature("J4.install")
def test_a_version_that_cannot_be_installed_fails_the_job_before_anything_runs(
    system: System, site: ReleaseSite
) -> None:
    system.start_server(runner=False)
    sha256 = hashlib.sha256(site.files[ARCHIVE]).hexdigest()
    site.files[ARCHIVE] = zipped({"tofu": b"#!/bin/sh\necho something else\n"})
    own = {
        "TERRACREW_CACHE": str(system.directory / "cache"),
        "TERRACREW_TOFU_RELEASES": site.url,
        "TERRACREW_TOFU_SHA256": sha256,
        "TERRACREW_ENGINE__INSTALL": "on-demand",
        "PATH": "/usr/bin:/bin",
    }
    system.start_runner(system.register_runner() | own)
    system.module("app", modules.quick(), engine_version=NEW)
    ended = system.wait(system.run("app", "APPLY"))
    assert ended["status"] == "FAILED"
    assert f"tofu {NEW} could not be installed" in ended["message"]
    assert "is not what was published" in system.log(ended["id"])
    assert [step["name"] for step in ended["steps"] if step["status"] == "FAILED"] == ["fetch"]
    assert not (system.directory / "cache" / "engines").exists()


@pytest.mark.other_engine
@pytest.mark.feature("J4.terraform", "J4.version", "J11.numbers", "J12.stored", "J15.versions")
def test_a_module_of_terraform_is_planned_applied_and_destroyed(system: System) -> None:
    engines.tested_version("terraform")
    system.start_server(runner=False)
    system.start_runner(system.register_runner())
    system.module("network", modules.quick(), engine="terraform", engine_version="~> 1.5.0")
    planned = system.wait(system.run("network"))
    assert planned["status"] == "SUCCEEDED", system.log(planned["id"])
    assert (planned["engine"], planned["engine_version"], planned["plan"]["add"]) == ("terraform", "1.5.7", 1)
    applied = system.wait(system.run("network", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    state = system.state("network")
    assert (state["terraform_version"], len(state["resources"])) == ("1.5.7", 1)
    assert system.api.get("/modules/network/outputs")["outputs"]["greeting"]["value"] == "hello world"
    destroyed = system.wait(system.run("network", "DESTROY"))
    assert destroyed["status"] == "SUCCEEDED", system.log(destroyed["id"])
    assert system.state("network")["resources"] == []
    assert discovery.find("terraform") is not None
