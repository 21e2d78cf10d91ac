"""Jobs and their attempts. `decide` has the rules as pure functions; other files load, ask it and save."""
