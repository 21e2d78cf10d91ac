"""The pages of releases: how far a roll-out has come, all releases, their notes, and the question before one is withdrawn."""
