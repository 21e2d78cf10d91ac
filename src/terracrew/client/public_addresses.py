"""Which addresses belong to the public internet, so that an address from outside cannot lead into the network of this machine."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV4 = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
"""Special addresses, among them a metadata service, and relays for 6to4. Python knows them in some versions only."""
_NOT_PUBLIC_IPV6 = (IPv6Network("2001::/32"), IPv6Network("2002::/16"), IPv6Network("3fff::/20"))
"""Teredo and 6to4, whose addresses lead to IPv4 addresses, which may be private ones; and addresses for documentation."""


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet, also by the IPv4 address that an IPv6 address may contain."""
    try:
        meant: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(meant, IPv6Address):
        is_unicast = meant in _GLOBAL_UNICAST and not any(meant in network for network in _NOT_PUBLIC_IPV6)
        return is_unicast and meant.is_global
    is_special = meant.is_multicast or meant.is_reserved or any(meant in network for network in _NOT_PUBLIC_IPV4)
    return meant.is_global and not is_special
