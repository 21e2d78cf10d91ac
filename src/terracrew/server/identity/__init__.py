"""Identity: people, service accounts and roles, signed tokens and their keys, and limits on wrong guesses."""
