"""Logins of the engines: `tofu login` and `terraform login` get an API token for a person who allows it in a browser."""
