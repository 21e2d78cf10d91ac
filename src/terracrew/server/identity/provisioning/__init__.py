"""People and groups that an identity provider manages (SCIM): who may do that, whom it manages, and in which groups they are."""
