"""Trust in other issuers: which of their tokens stand for which service account, and how such a token is verified."""
