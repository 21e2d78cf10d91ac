"""Logins at terminals: `terracrew login`, `tofu login` and `terraform login` get an API token for a person who allows it in a browser."""
