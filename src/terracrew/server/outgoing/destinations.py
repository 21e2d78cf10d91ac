"""Which private addresses the operator lets this server send requests to (the setting `private_destinations`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from terracrew.client.public_addresses import is_public


@dataclass(frozen=True)
class Destinations:
    hosts: frozenset[str] = frozenset()
    """Names whose addresses may be private. `*.example.com` stands for all names below one."""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "Destinations":
        """Return what the entries of the setting allow: an entry that is not an address or a network is the name of a host."""
        hosts, networks = set[str](), list[IPv4Network | IPv6Network]()
        for entry in entries:
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError:
                hosts.add(_canonical(entry))
        return cls(frozenset(hosts), tuple(networks))

    def allows_host(self, host: str) -> bool:
        """Return whether a name may have private addresses, and be reached without TLS."""
        name = _canonical(host)
        parts = name.split(".")
        return name in self.hosts or any(f"*.{'.'.join(parts[start:])}" in self.hosts for start in range(1, len(parts)))

    def allows_private(self, address: str) -> bool:
        """Return whether an address is in a network that the setting names."""
        try:
            meant = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(meant in network for network in self.networks)

    def allows(self, address: str) -> bool:
        return is_public(address) or self.allows_private(address)


def _canonical(host: str) -> str:
    return host.lower().rstrip(".")
