"""References: what they may look like, and that nothing repeats a text that is none."""

import json
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.settings import layers
from terracrew.settings.external import references
from tests.settings.runner_files import problems_of, write


@pytest.mark.feature("T3.vaults")
@pytest.mark.parametrize(
    ("text", "target", "field"),
    [
        ("file:/run/secrets/token", "/run/secrets/token", ""),
        ("file:/run/secrets/all.json#token", "/run/secrets/all.json", "token"),
        ("variable:DB_PASSWORD", "DB_PASSWORD", ""),
        ("vault:kv/crew/runner#token", "kv/crew/runner", "token"),
        ("vault:kv/crew/runner?version=3#token", "kv/crew/runner", "token"),
        ("aws-secret:crew/runner#token", "crew/runner", "token"),
        (
            "aws-secret:arn:aws:secretsmanager:eu-west-1:123456789012:secret:crew-AbCdEf",
            "arn:aws:secretsmanager:eu-west-1:123456789012:secret:crew-AbCdEf",
            "",
        ),
        ("aws-parameter:/crew/runner/token", "/crew/runner/token", ""),
        ("azure:https://crew.vault.azure.net/secrets/token", "https://crew.vault.azure.net/secrets/token", ""),
    ],
)
def test_a_reference_names_a_store_a_secret_and_a_field(text: str, target: str, field: str) -> None:
    found = references.parse(text)
    assert (found.target, found.field, str(found)) == (target, field, text)


@pytest.mark.feature("T3.errors", "T3.hidden")
@pytest.mark.parametrize(
    "text",
    [
        "hush-hush",
        "hush:hush",
        "file:relative/hush",
        "variable:hush hush",
        "vault:hush",
        "vault:kv/hush",
        "vault:kv/../hush#x",
        "vault:kv/hush?version=hush#x",
        "exec:/bin/hush",
        'exec:["hush"]',
        "exec:[]",
        "aws-secret:hush hush",
        "azure:http://crew.vault.azure.net/secrets/hush",
        "azure:https://user:hush@crew.vault.azure.net/secrets/x",
        "azure:https://crew.vault.azure.net/keys/hush",
    ],
)
def test_a_text_that_is_no_reference_is_refused_and_not_repeated(text: str, file: Path) -> None:
    write(file, external={"settings": {"runner.capacity": text}})
    (problem,) = problems_of(file)
    assert problem.startswith("  external.settings.runner.capacity (")
    assert "hush" not in problem


@pytest.mark.feature("T3.vaults")
def test_references_may_be_in_every_layer_and_the_highest_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("low", "middle", "high"):
        (tmp_path / name).write_text(name)
    file = tmp_path / "runner.toml"
    file.write_text(
        f"""
        server.url = "https://terracrew.example"
        runner.id = "rnr_{"1" * 32}"
        runner.instance = "i"
        runner.organization_id = "org_{"2" * 32}"
        runner.credentials.client_id = "sac_3"
        external.settings.runner.credentials.client_secret = "file:{tmp_path}/low"
        external.settings.logging.log_level.Default = "file:{tmp_path}/level"
        """
    )
    (tmp_path / "level").write_text("debug")
    assert layers.load(file).client_secret == "low"
    assert layers.load(file).log_level == {"Default": "Debug"}
    name = "external.settings.runner.credentials.client_secret"
    monkeypatch.setenv("TERRACREW_EXTERNAL__SETTINGS__RUNNER__CREDENTIALS__CLIENT_SECRET", f"file:{tmp_path}/middle")
    assert layers.load(file).client_secret == "middle"
    assert layers.load(file, {name: f"file:{tmp_path}/high"}).client_secret == "high"


@pytest.mark.feature("T3.vaults")
def test_a_whole_section_may_be_one_external_object(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "credentials"
    secret.write_text(json.dumps({"worker_id": "rnr_x", "worker_token": "tcw_hush"}))
    write(
        file,
        runner={"id": "1" * 32, "instance": "i", "organization_id": "2" * 32},
        external={"settings": {"runner.credentials": f"file:{secret}"}},
    )
    assert layers.load(file).client_secret == "tcw_hush"
    secret.write_text("tcw_hush")
    (problem,) = problems_of(file)
    assert "a section must be a JSON object" in problem
    assert "hush" not in problem


@pytest.mark.feature("T3.errors")
def test_a_reference_for_a_setting_that_does_not_exist_is_refused(file: Path, tmp_path: Path) -> None:
    external = {"settings": {"runner.capcity": "variable:X", "external.timeout_seconds": "variable:X"}}
    first, second = problems_of(write(file, external=external))
    assert first.startswith("  external.timeout_seconds (")
    assert "cannot be external" in first
    assert "runner.capcity" in second
    assert "did you mean capacity?" in second


@pytest.mark.feature("T3.errors")
def test_a_vault_without_an_address_is_reported_with_everything_else(file: Path) -> None:
    external = {"settings": {"runner.capacity": "vault:kv/crew#x"}, "vault": {"auth": "approle"}}
    write(file, external=external, job_log_stream={"batch_size_limit": 0})
    names = [problem.split()[0].rstrip(":") for problem in problems_of(file)]
    assert names == [
        "external.vault.address",
        "external.vault.role_id",
        "external.vault.secret_id_file",
        "job_log_stream.batch_size_limit",
    ]


@pytest.mark.feature("T3.errors")
def test_plain_http_to_a_vault_on_another_machine_is_refused(file: Path) -> None:
    vault = {"address": "http://vault.example:8200", "token": "hush"}
    write(file, external={"settings": {"runner.capacity": "vault:kv/crew#x"}, "vault": vault})
    (problem,) = problems_of(file)
    assert "plain http to another machine exposes every secret" in problem


@pytest.mark.feature("T3.hidden")
def test_the_token_for_a_vault_cannot_be_an_argument(file: Path) -> None:
    with pytest.raises(Invalid) as refused:
        layers.load(file, {"external.vault.token": "hush-hush-hush"})
    assert "every user can read arguments" in refused.value.message
    assert "hush-hush-hush" not in refused.value.message
