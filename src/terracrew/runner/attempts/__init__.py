"""The attempts of this runner: which jobs it claims, and each attempt from its grant to the removal of its directory."""
