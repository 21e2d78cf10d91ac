"""States and outputs of modules: their versions, content and quarantine."""
