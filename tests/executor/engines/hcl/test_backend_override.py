"""Which blocks of a source give way to the file by which Terracrew holds the state."""

import pytest

from terracrew.errors import Conflict, Invalid
from terracrew.executor.engines.hcl import backend_override
from terracrew.executor.engines.hcl.blocks import BackendBlock

HOSTS = frozenset({"crew.example", "10.0.0.1:8443"})


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize("block", ["cloud", 'backend "remote"', "backend remote"])
@pytest.mark.parametrize("host", ["crew.example", "Crew.Example.", "10.0.0.1:8443"])
def test_a_block_that_names_this_server_is_replaced(block: str, host: str) -> None:
    found = [BackendBlock("main.tf", 1, block, host), BackendBlock("cloud_override.tf", 1, block, host)]
    backend_override.check(found, HOSTS, is_uploaded_for_job=False)


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    ("block", "host", "words"),
    [
        ("cloud", "app.terraform.io", r"main\.tf:3 has a cloud block for app\.terraform\.io, but Terracrew holds"),
        ("cloud", "", "has a cloud block that names no host, but"),
        ("cloud", "crew.example:444", "for crew.example:444, but .* `discovery_host` must say so"),
        ('backend "s3"', "crew.example", 'has a backend "s3" block, but'),
    ],
)
def test_a_block_that_may_name_another_place_is_refused(block: str, host: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        backend_override.check([BackendBlock("main.tf", 3, block, host)], HOSTS, is_uploaded_for_job=False)


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize("host", ["", "an-alias.of.the.server"])
def test_an_upload_for_one_job_may_name_the_server_as_its_sender_knows_it(host: str) -> None:
    """The host may come from TF_CLOUD_HOSTNAME, or be an alias that only the sender's configuration has."""
    backend_override.check([BackendBlock("main.tf", 1, "cloud", host)], HOSTS, is_uploaded_for_job=True)


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(("block", "host"), [("cloud", "APP.terraform.io"), ('backend "gcs"', "")])
def test_an_upload_for_one_job_may_not_name_another_place(block: str, host: str) -> None:
    with pytest.raises(Invalid, match="remove the block"):
        backend_override.check([BackendBlock("main.tf", 1, block, host)], HOSTS, is_uploaded_for_job=True)


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize("file", ["zz_override.tf", "zz_override.tofu.json", "x.y_override.tf", "\u00e9_override.tf"])
def test_an_override_file_that_is_read_after_ours_must_not_have_a_block(file: str) -> None:
    with pytest.raises(Conflict, match=r"reads this file after terracrew_override\.tf"):
        backend_override.check([BackendBlock(file, 1, "cloud", "crew.example")], HOSTS, is_uploaded_for_job=False)


def test_a_file_whose_name_only_resembles_an_override_may_have_one() -> None:
    for file in ("zz.tf", "zzoverride.tf", "override.tf", "zz_overrides.tf", "zz_override.old.tf"):
        backend_override.check([BackendBlock(file, 1, "cloud", "crew.example")], HOSTS, is_uploaded_for_job=False)


STATES = frozenset({"/api/v1/modules/net%2Fvpc/state"})


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    ("address", "is_own"),
    [
        ("https://crew.example/api/v1/modules/net%2Fvpc/state", True),
        ("https://Crew.example.:443/api/v1/modules/net%2Fvpc/state", True),
        ("http://10.0.0.1:8443/api/v1/modules/net%2Fvpc/state", True),
        ("http://crew.example/api/v1/modules/net%2Fvpc/state", False),
        ("https://crew.example/api/v1/modules/net%2Fother/state", False),
        ("https://other.example/api/v1/modules/net%2Fvpc/state", False),
        ("https://crew.example/api/v1/modules/net%2Fvpc/state?x=1", False),
        ("https://crew.example:x/api/v1/modules/net%2Fvpc/state", False),
        ("", False),
    ],
)
def test_a_backend_http_is_replaced_only_if_it_is_the_state_of_the_module_here(address: str, is_own: bool) -> None:
    for block in ('backend "http"', "backend http"):
        found = [BackendBlock("main.tf", 1, block, address)]
        if is_own:
            backend_override.check(found, HOSTS, is_uploaded_for_job=False, state_paths=STATES)
            continue
        with pytest.raises(Invalid, match="but Terracrew holds"):
            backend_override.check(found, HOSTS, is_uploaded_for_job=True, state_paths=STATES)
