"""GitHub, github.com and Enterprise Server: by an application or by a token."""
