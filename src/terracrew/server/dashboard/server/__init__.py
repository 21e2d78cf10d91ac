"""The pages of the server itself, for its administrators: holds, the master key, what is stored, and the issuer of tokens for clouds."""
