"""How one program that runs HCL configurations differs from the others."""

import msgspec

_OF_BOTH = (".local/share/terraform", ".terraform.d", ".terraformrc", ".tenv", ".tfenv")


class Dialect(msgspec.Struct, frozen=True):
    name: str
    """The name of the engine, and of its program."""
    title: str
    home_configurations: tuple[str, ...]
    """The configuration files of the program in the home directory of its user."""
    home_paths: tuple[str, ...]
    """What operators set up for the program in their home directory: configurations, plug-ins, version switchers."""


TOFU = Dialect(
    name="tofu",
    title="OpenTofu",
    home_configurations=(".tofurc", ".terraformrc", ".config/opentofu/tofurc"),
    home_paths=(*_OF_BOTH, ".config/opentofu", ".local/share/opentofu", ".tofurc", ".tofuenv"),
)
TERRAFORM = Dialect(
    name="terraform",
    title="Terraform",
    home_configurations=(".terraformrc",),
    home_paths=_OF_BOTH,
)
