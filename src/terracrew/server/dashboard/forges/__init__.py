"""The pages of connections to forges: the list, one connection with what it watches and what was delivered, and a panel."""
