"""Tokens for clouds with the real engine: what a plan is given, what an apply is given, and what they are good for."""

from pathlib import Path

import httpx
import pytest

from tests.e2e.cloud import as_a_cloud_reads_it
from tests.e2e.gate import Gate
from tests.e2e.modules import gated_plan
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

CLOUD = "sts.amazonaws.com"


def copying(witness: Path, gate: Gate) -> str:
    """A plan that waits, and an apply that copies its token and prints it."""
    command = (
        f"cp $TERRACREW_OIDC_TOKEN_FILE {witness}; stat -c 'mode %a' $TERRACREW_OIDC_TOKEN_FILE; "
        "cat $TERRACREW_OIDC_TOKEN_FILE_STS_AMAZONAWS_COM; echo ' was it'"
    )
    return f"""{gated_plan(gate.address)}
resource "terraform_data" "copy" {{
  provisioner "local-exec" {{ command = "{command}" }}
}}
"""


@pytest.mark.feature("X4.cloud")
@pytest.mark.parametrize("kind", ["PLAN", "APPLY"])
def test_plan_and_apply_hold_different_tokens_which_open_nothing_here(
    system: System, gate: Gate, tmp_path: Path, kind: str
) -> None:
    witness = tmp_path / "copied"
    system.start_server(runner=True)
    system.module("net/vpc", copying(witness, gate), oidc_audiences=[CLOUD])
    job_id = system.run("net/vpc", kind)
    assert gate.reached.wait(60)
    (file,) = tmp_path.glob(f"**/engine-files/{job_id}.1/provided/oidc/*")
    planned = file.read_text()
    claims = as_a_cloud_reads_it(system, planned)
    assert claims["sub"] == "organization:default:module:net/vpc:phase:plan"
    assert (claims["aud"], claims["job_id"]) == (CLOUD, job_id)
    hub = f"{system.url}/runnerhub/attempts/{job_id}/1"
    for address in (f"{system.url}/api/v1/me", f"{hub}/state", f"{hub}/archive"):
        assert httpx.get(address, headers={"Authorization": f"Bearer {planned}"}).status_code == 401
    gate.open()
    ended = system.wait(job_id)
    assert ended["status"] == "SUCCEEDED", system.log(job_id)
    if kind == "PLAN":
        assert not witness.exists()
        return
    applied = witness.read_text()
    claims = as_a_cloud_reads_it(system, applied)
    assert claims["sub"] == "organization:default:module:net/vpc:phase:apply"
    assert httpx.get(f"{system.url}/api/v1/me", headers={"Authorization": f"Bearer {applied}"}).status_code == 401
    log = system.log(job_id)
    assert "mode 600" in log
    assert "*** was it" in log
    assert applied not in log
