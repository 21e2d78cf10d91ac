"""The content security policy of every answer."""

HEADER = "content-security-policy"


def content_policy(form_target: str = "") -> str:
    """Return the policy of an answer: everything comes from this server. `form_target` is another origin that its forms may be sent to."""
    target = f" {form_target}" if form_target else ""
    return f"default-src 'self'; base-uri 'none'; form-action 'self'{target}; frame-ancestors 'none'; object-src 'none'"
