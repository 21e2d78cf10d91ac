"""A release without a pinned hash is used only if its publisher signed it; the signatures here are real ones."""

from pathlib import Path

import pysequoia
import pytest

from terracrew.errors import Invalid
from terracrew.toolchains import discovery, install, specs
from terracrew.toolchains.cache import InstallProgress
from terracrew.toolchains.signatures import verification

from .release_site import SIGNATURE, SUMS, VERSION, ReleaseSite, program, zipped

SIGNED = Path(__file__).parent / "signed"
SUMS_OF_HASHICORP = (SIGNED / "terraform-provider-null_3.1.0_SHA256SUMS").read_bytes()
SIGNATURE_OF_HASHICORP = (SIGNED / "terraform-provider-null_3.1.0_SHA256SUMS.sig").read_bytes()
HASHICORP = verification.PUBLISHERS["hashicorp"]

pytestmark = [pytest.mark.feature("J4.signed"), pytest.mark.usefixtures("empty_cache", "bare_path")]


def test_a_signature_that_hashicorp_published_is_valid() -> None:
    """This one is among those whose number Go's library gave the wrong length, and was made before the key was extended."""
    assert verification.normalized(SIGNATURE_OF_HASHICORP) != SIGNATURE_OF_HASHICORP
    found = verification.verify("hashicorp", SUMS_OF_HASHICORP, SIGNATURE_OF_HASHICORP)
    assert found == HASHICORP.fingerprint


def test_a_changed_list_is_refused() -> None:
    with pytest.raises(Invalid, match=f"is not one of HashiCorp's key {HASHICORP.fingerprint} over this content"):
        verification.verify("hashicorp", SUMS_OF_HASHICORP.replace(b"f", b"e", 1), SIGNATURE_OF_HASHICORP)


def test_a_signature_of_another_publisher_is_refused_and_its_key_named() -> None:
    with pytest.raises(Invalid, match=r"made by b0b441097685b676 and is not one of OpenTofu's key"):
        verification.verify("opentofu", SUMS_OF_HASHICORP, SIGNATURE_OF_HASHICORP)


@pytest.mark.parametrize(
    "content", [b"", b"<html>sign in</html>", SIGNATURE_OF_HASHICORP[:-9], b"\xc2", b"\xc2\xff\x00"]
)
def test_what_is_not_a_signature_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="is not an OpenPGP signature") as refused:
        verification.verify("hashicorp", SUMS_OF_HASHICORP, content)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("position", [3, 4, 5, 6, 8, 12, 20, 30, 200, 542])
def test_no_changed_byte_of_a_signature_is_accepted(position: int) -> None:
    changed = bytearray(SIGNATURE_OF_HASHICORP)
    changed[position] ^= 0x11
    with pytest.raises(Invalid):
        verification.verify("hashicorp", SUMS_OF_HASHICORP, bytes(changed))


@pytest.mark.parametrize("publisher", verification.PUBLISHERS)
def test_every_pinned_key_is_the_one_that_is_named_and_is_not_revoked(publisher: str) -> None:
    key = verification.key(publisher)
    assert (key.fingerprint, key.is_revoked) == (
        verification.PUBLISHERS[publisher].fingerprint,
        False,
    )


def test_every_release_names_a_publisher_whose_key_is_pinned() -> None:
    releases = [spec.release for spec in specs.ENGINES.values() if spec.release]
    assert {release.publisher for release in releases} == set(verification.PUBLISHERS)
    assert specs.PULUMI.release is None  # signed with Sigstore only, so it is built from its module


def test_a_signed_release_is_installed_and_the_key_told(releases: ReleaseSite) -> None:
    releases.publish(zipped({"tofu": program()}))
    reports: list[InstallProgress] = []
    install.install("tofu", VERSION, report=reports.append)
    notes = [one.text for one in reports if one.stage == "note"]
    assert len(notes) == 1
    assert f"is signed by OpenTofu (key {releases.certificate.fingerprint})" in notes[0]


def test_a_release_that_somebody_else_signed_is_not_installed(releases: ReleaseSite) -> None:
    stranger = pysequoia.Tsk.generate("somebody else")
    releases.publish(zipped({"tofu": program()}), key=stranger)
    # Not even a build follows: somebody changed the file, and the user has to hear of it.
    with pytest.raises(
        Invalid, match=r"the signature .*gpgsig of .*SHA256SUMS is not valid: .*--force-build"
    ) as refused:
        install.install("tofu", VERSION, report=lambda _: None)
    assert "TERRACREW_TOFU_SHA256" in refused.value.message
    assert discovery.find("tofu") is None


def test_sums_that_were_changed_after_signing_are_not_used(releases: ReleaseSite) -> None:
    releases.publish(zipped({"tofu": program()}))
    signature = releases.files[SIGNATURE]
    releases.publish(zipped({"tofu": program(extra="# changed")}))
    releases.files[SIGNATURE] = signature
    with pytest.raises(Invalid, match="is not valid"):
        install.install("tofu", VERSION, report=lambda _: None)
    assert discovery.find("tofu") is None


def test_a_release_without_a_signature_is_built_from_its_module_instead(
    releases: ReleaseSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases.publish(zipped({"tofu": program()}))
    del releases.files[SIGNATURE]
    built = "this test builds nothing"

    def build(*_: object) -> list[Path]:
        raise Invalid(built)

    monkeypatch.setattr("terracrew.toolchains.go_build.build", build)
    reports: list[InstallProgress] = []
    with pytest.raises(Invalid, match=built):
        install.install("tofu", VERSION, report=reports.append)
    assert releases.asked == [SUMS, SIGNATURE]
    note = next(one.text for one in reports if one.stage == "note")
    assert "the release is not signed" in note
    assert note.endswith(f"building OpenTofu {VERSION} from its Go module instead")


def test_hashicorps_newer_name_of_a_signature_is_tried_first(
    releases: ReleaseSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACREW_TERRAFORM_RELEASES", releases.url)
    releases.publish_terraform("1.4.0", zipped({"terraform": program("1.4.0")}))
    install.install("terraform", "1.4.0", report=lambda _: None)
    assert [each.rpartition("_SHA256SUMS")[2] for each in releases.asked[:3]] == ["", ".72D7468F.sig", ".sig"]
