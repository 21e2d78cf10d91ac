"""Client addresses: the network that a limit counts, and membership in configured networks."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from terracrew.errors import Invalid

IPV6_PREFIX_BITS = 64
"""A customer of an IPv6 provider usually has a whole /64, so a limit on single addresses would limit nobody."""
UNKNOWN = "unknown"
Network = IPv4Network | IPv6Network


def parse(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address; an IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`) becomes IPv4. None if it is not one."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def is_loopback(text: str) -> bool:
    """Tell whether only this machine has that address. A socket for both families shows 127.0.0.1 as `::ffff:127.0.0.1`."""
    address = parse(text)
    return text == "localhost" if address is None else address.is_loopback


@lru_cache(4096)
def limit_key(text: str) -> str:
    """Return what a limit counts for this client: its IPv4 address, or the /64 of its IPv6 address."""
    address = parse(text)
    if address is None:
        return text[:100] or UNKNOWN
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, IPV6_PREFIX_BITS), strict=False))
    return str(address)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read addresses and networks (`10.0.0.0/8`, `::1`); refuse what is neither."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ip_network(text.strip()))
        except ValueError as error:
            raise Invalid(f"{text!r} is neither an address nor a network such as 10.0.0.0/8: {error}") from None
    return tuple(networks)


def is_within(text: str, networks: tuple[Network, ...]) -> bool:
    """Tell whether a client's address lies in one of the networks."""
    address = parse(text) if networks else None
    return address is not None and any(address in network for network in networks)
