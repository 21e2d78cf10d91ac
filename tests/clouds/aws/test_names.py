"""The names of a runner's things fit the limits of AWS, and two runners never share one."""

import re

from terracrew import ids
from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws import names
from terracrew.clouds.model import Deployment


def test_names_fit_the_limits_of_aws() -> None:
    made = names.names_of(ids.new("rnr"))
    for role in (made.execution_role, made.task_role):
        assert re.fullmatch(r"[\w+=,.@-]{1,64}", role)
    assert re.fullmatch(r"[\w-]{1,255}", made.cluster)
    assert re.fullmatch(r"[\w-]{1,255}", made.family)
    assert re.fullmatch(r"[\w/.#-]{1,512}", made.log_group)
    assert re.fullmatch(r"[\w/+=.@-]{1,512}", made.secret)
    assert re.fullmatch(r"[A-Za-z0-9/_-]{1,128}", made.started_by)
    assert not made.security_group.startswith("sg-")
    # Secrets Manager adds a hyphen and six characters to the ARN: a name of that form could be taken for another secret.
    assert not re.search(r"-\w{6}\Z", made.secret)


def test_runners_that_were_made_in_the_same_moment_have_different_names() -> None:
    assert len({names.names_of(ids.new("rnr")).cluster for _ in range(1000)}) == 1000


def test_tags_have_only_characters_that_aws_accepts() -> None:
    deployment = Deployment(
        runner_id=ids.new("rnr"),
        runner_path="crew/müller, <b>",
        organization_id=ids.new("org"),
        server_url="https://terracrew.example.com",
        region="eu-central-1",
        version="0.1.0",
        settings=DeploymentSettings(),
    )
    tags = names.tags_of(deployment, "fjb_1")
    assert tags["terracrew:path"] == "crew/m-ller- -b-"
    assert names.from_list(names.to_list(tags)) == names.from_list(names.to_list(tags, "key", "value")) == tags
