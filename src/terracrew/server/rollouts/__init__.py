"""Roll-outs: the update of the runners of an organization to a release, one runner first and then in growing waves."""
