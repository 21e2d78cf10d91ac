"""The command line, which speaks the public API: `commands/` by noun, and packages for what the commands share."""
