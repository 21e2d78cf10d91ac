"""Who acts, and what they may do: the principal of a request, roles, verbs, and what a reader may see."""
