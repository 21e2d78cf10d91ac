"""`terracrew cloud-identity`: manages and tests the ways into cloud accounts in which runners are started."""
