"""What the built-in dispatchers can give to a job that asks for it. An allow-list must not promise anything else."""

from terracrew.protocol.dispatcher_choice import ChoiceField

APPLIED: dict[str, frozenset[ChoiceField]] = {
    "local": frozenset(),
    "docker": frozenset({"image", "memory_mb", "cpu"}),
    "kubernetes": frozenset({"image", "memory_mb", "cpu", "service_account"}),
    "ecs": frozenset({"memory_mb", "cpu", "service_account"}),
}
"""By type. A dispatcher of another package is not listed, and has to apply everything that its allow-list has."""
