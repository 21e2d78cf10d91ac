"""Which places of the tree may use which runners."""
