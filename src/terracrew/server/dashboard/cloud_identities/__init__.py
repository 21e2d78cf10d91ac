"""The pages of cloud identities: the list, one identity with its test, its policies and what is in its account, and the form."""
