"""Options and arguments that several commands take: how they are parsed, completed and turned into ids."""
