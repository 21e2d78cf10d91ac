"""GitLab, gitlab.com and self-managed. A merge request of GitLab is a pull request here."""
