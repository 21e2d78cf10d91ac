"""Discovery: rules make modules from the folders of repositories, and mark modules whose folder is gone (ADR 0093)."""
