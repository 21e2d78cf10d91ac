"""An engine that keeps notes, and a source whose files are in its settings. Nothing of Terracrew knows this package."""
