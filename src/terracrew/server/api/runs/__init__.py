"""Jobs over HTTP: what people and programs ask of them, their logs, and what changes while it changes."""
