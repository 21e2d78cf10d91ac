"""Real engines fetch published modules: in jobs with the job's own token, and at prompts with that of a person."""

import re
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from terracrew.client.address import segment
from terracrew.source_rules import archive
from terracrew.toolchains import discovery
from terracrew.toolchains.discovery import FoundEngine
from tests.e2e.prompt import flat
from tests.e2e.system import System
from tests.e2e.tls_front import TlsFront

pytestmark = [pytest.mark.feature("P7.jobs"), pytest.mark.engine]
NAME = """
variable "size" { type = string }
output "said" { value = "VERSION ${var.size}" }
"""


@pytest.fixture
def front(system: System, tmp_path: Path) -> Generator[TlsFront]:
    """A server that engines and executors discover over TLS at the address that people use."""
    with TlsFront(tmp_path, system.port).running() as made:
        system.env |= {
            "TERRACREW_SERVER_PUBLIC_URL": f"https://127.0.0.1:{made.port}",
            "SSL_CERT_FILE": str(made.certificate),
        }
        yield made


def publish(system: System, group: str, version: str, name: str = "greeting") -> None:
    folder = system.directory / "published" / group / name / version
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text(NAME.replace("VERSION", version))
    found = system.api.upload("/archives", archive.pack(folder), "application/gzip")
    path = segment(f"{group}/{name}/null")
    system.api.post(f"/published-modules/{path}/versions", {"version": version, "archive_id": found["id"]})


def create(system: System, group: str, **fields: str) -> None:
    system.api.post("/groups?parents=true", {"path": group})
    system.api.post("/published-modules", {"group": group, "name": "greeting", "system": "null", **fields})


def using(front: TlsFront, namespace: str, version: str) -> str:
    source = f"127.0.0.1:{front.port}/{namespace}/greeting/null"
    return f"""
module "greeting" {{
  source  = "{source}"
  version = "{version}"
  size    = "small"
}}
output "said" {{ value = module.greeting.said }}
"""


def said(system: System, job: str) -> str:
    return flat(re.sub(r"\x1b\[[0-9;]*m", "", system.log(job)))


def test_jobs_fetch_published_modules_with_their_own_tokens_and_only_those_for_their_place(
    system: System, front: TlsFront, tmp_path: Path
) -> None:
    system.start_server(runner=True)
    create(system, "platform/shared")
    for version in ("1.0.0", "1.2.0", "1.3.0-rc.1", "2.0.0"):
        publish(system, "platform/shared", version)
    create(system, "common", readers="organization")
    publish(system, "common", "0.1.0")

    system.module("platform/shared/app", using(front, "platform_shared", "~> 1.0"))
    inside = system.run("platform/shared/app", "APPLY")
    system.module("other/app", using(front, "platform_shared", "~> 1.0"))
    outside = system.run("other/app")
    system.module("other/second", using(front, "common", ">= 0.1"))
    for_all = system.run("other/second")
    source = {"kind": "registry", "address": f"127.0.0.1:{front.port}/common/greeting/null", "version": "~> 0.1"}
    system.api.post("/modules", {"path": "other/whole", "engine": "tofu", "source": source, "inputs": {"size": "big"}})
    whole = system.run("other/whole", "APPLY")

    assert system.wait(inside)["status"] == "SUCCEEDED", said(system, inside)
    assert 'said = "1.2.0 small"' in said(system, inside)
    assert system.wait(outside)["status"] == "FAILED"
    assert "platform_shared/greeting/null" in said(system, outside)
    assert system.wait(for_all)["status"] == "SUCCEEDED", said(system, for_all)
    assert system.wait(whole)["status"] == "SUCCEEDED", said(system, whole)
    assert 'said = "0.1.0 big"' in said(system, whole)

    # A version that is withdrawn is chosen no more, and its number is not taken by other files.
    path = f"/published-modules/{segment('platform/shared/greeting/null')}"
    system.api.patch(f"{path}/versions/1.2.0", {"is_withdrawn": True, "reason": "it is slow"})
    again = system.run("platform/shared/app", "APPLY")
    assert system.wait(again)["status"] == "SUCCEEDED", said(system, again)
    assert 'said = "1.0.0 small"' in said(system, again)

    # A person at a prompt.
    prompt = tmp_path / "prompt"
    prompt.mkdir()
    (prompt / "main.tf").write_text(using(front, "platform_shared", "2.0.0"))
    for engine in filter(None, map(discovery.find, ("tofu", "terraform"))):
        shutil.rmtree(prompt / ".terraform", ignore_errors=True)
        assert init(engine, front, prompt, token="wrong").returncode == 1
        ran = init(engine, front, prompt, (system.data / "admin.token").read_text().strip())
        assert ran.returncode == 0, ran.stderr
        assert "2.0.0" in (prompt / ".terraform/modules/greeting/main.tf").read_text()


def init(engine: FoundEngine, front: TlsFront, folder: Path, token: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "SSL_CERT_FILE": str(front.certificate),
        f"TF_TOKEN_127_0_0_1:{front.port}": token,
    }
    return subprocess.run(
        [engine.path, "init", "-no-color", "-input=false"],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=60,
    )
