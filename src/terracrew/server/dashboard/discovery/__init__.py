"""The pages of discovery rules: the list, a rule with what it has found, its form with a preview, and the panel of a group."""
