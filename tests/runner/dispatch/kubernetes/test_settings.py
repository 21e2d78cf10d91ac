"""The parameters of the dispatcher `kubernetes`, as variables of the runner's environment."""

import json
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.runner.dispatch.kubernetes import pod_template, settings
from terracrew.runner.dispatch.kubernetes.kubeconfig import open_access
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.settings import layers

PREFIX = "TERRACREW_JOB_DISPATCHER_DATA_"


@pytest.mark.feature("D4.kubernetes")
def test_every_parameter_is_read(tmp_path: Path) -> None:
    template = tmp_path / "pod.yaml"
    template.write_text("spec:\n  nodeSelector: {disk: fast}\n")
    assert settings.parse(
        {
            "auth_type": "kubeconfig",
            "image": "registry.example:5000/terracrew/executor:1.0",
            "namespace": "jobs",
            "kubeconfig": "/etc/kubeconfig",
            "context": "production",
            "memory_request": "512 MB",
            "memory_limit": "2Gi",
            "cpu_request": "500m",
            "cpu_limit": "1.5",
            "service_account": "terracrew.executor",
            "image_pull_secrets": "one, two",
            "image_pull_policy": "Always",
            "pod_template": str(template),
            "environment": "AWS_*,HTTPS_PROXY",
            "engines": "tofu 1.12.6, terraform=1.5.7",
            "start_seconds": "60",
        }
    ) == KubernetesSettings(
        "registry.example:5000/terracrew/executor:1.0",
        auth_type="kubeconfig",
        namespace="jobs",
        kubeconfig="/etc/kubeconfig",
        context="production",
        memory_request="512Mi",
        memory_limit="2Gi",
        cpu_request="500m",
        cpu_limit="1.5",
        service_account="terracrew.executor",
        image_pull_secrets=["one", "two"],
        image_pull_policy="Always",
        pod_template={"spec": {"nodeSelector": {"disk": "fast"}}},
        environment=["AWS_*", "HTTPS_PROXY"],
        engines={"tofu": ["1.12.6"], "terraform": ["1.5.7"]},
        start_seconds=60.0,
    )


@pytest.mark.feature("D4.kubernetes")
def test_an_eks_cluster_is_read() -> None:
    found = settings.parse({"auth_type": "eks_iam", "image": "i", "region": "eu-central-1", "eks_cluster": "main"})
    assert (found.auth_type, found.region, found.eks_cluster) == ("eks_iam", "eu-central-1", "main")
    assert found.namespace == "default"


WRONG = {
    "AUTH_TYPE": "token",
    "IMAGE": "-",
    "NAMESPACE": "Jobs",
    "REGION": "Frankfurt",
    "EKS_CLUSTER": "a b",
    "MEMORY_REQUEST": "much",
    "MEMORY_LIMIT": "2 XB",
    "CPU_REQUEST": "0",
    "CPU_LIMIT": "fast",
    "SERVICE_ACCOUNT": "an account",
    "IMAGE_PULL_SECRETS": "UPPER",
    "IMAGE_PULL_POLICY": "Sometimes",
    "POD_TEMPLATE": "/nowhere/pod.yaml",
    "ENVIRONMENT": "A B",
    "ENGINES": "tofu",
    "START_SECONDS": "soon",
    "CONTEXT": " ",
    "KUBECONFIG": " ",
    "FAST": "yes",
}


@pytest.mark.feature("D7.parameters")
def test_everything_that_is_wrong_is_reported_at_once_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_TYPE", "kubernetes")
    for name, text in WRONG.items():
        monkeypatch.setenv(f"{PREFIX}{name}", text)
    file = tmp_path / "runner.json"
    file.write_text('{"server": {"url": "http://127.0.0.1:7500"}}')
    with pytest.raises(Invalid) as caught:
        layers.load(file)
    for name in WRONG:
        assert f"(environment {PREFIX}{name})" in caught.value.message, name


@pytest.mark.feature("D7.parameters")
@pytest.mark.parametrize(
    ("data", "names"),
    [
        ({}, ["image"]),
        ({"image": "i", "auth_type": "eks_iam"}, ["region", "eks_cluster"]),
        ({"image": "i", "region": "eu-central-1"}, ["region"]),
        ({"image": "i", "auth_type": "in_cluster", "context": "c"}, ["context"]),
        (
            {"image": "i", "auth_type": "eks_iam", "region": "eu-west-1", "eks_cluster": "c", "kubeconfig": "k"},
            ["kubeconfig"],
        ),
    ],
)
def test_parameters_that_do_not_fit_together_are_named(data: dict[str, str], names: list[str]) -> None:
    assert list(settings.problems(data)) == names


@pytest.mark.feature("D4.kubernetes")
@pytest.mark.parametrize(
    ("text", "quantity"),
    [("42 MB", "42Mi"), ("512Mi", "512Mi"), ("1.5GiB", "1.5Gi"), ("8388608", "8388608"), ("2g", "2G"), ("1 tb", "1Ti")],
)
def test_an_amount_of_memory_is_read(text: str, quantity: str) -> None:
    assert settings.memory(text) == quantity


def test_a_job_gets_what_it_asks_for() -> None:
    asked = DispatcherChoice(image="other:1", memory_mb=512, cpu=1.5, service_account="deployer")
    found = settings.with_choice(KubernetesSettings("i", memory_limit="2Gi"), asked)
    assert (found.image, found.service_account) == ("other:1", "deployer")
    assert (found.memory_request, found.memory_limit, found.cpu_request, found.cpu_limit) == (
        "512Mi",
        "512Mi",
        "1500m",
        "1500m",
    )
    assert settings.with_choice(found, DispatcherChoice()) == found


@pytest.mark.feature("D7.parameters")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "not a pod template"),
        ("a: [", "not YAML: line 1"),
        ("nodeSelector: {}\n", "has 'nodeSelector'; a pod template has"),
        ("spec: {restartPolicy: Always}\n", "sets spec.restartPolicy"),
        ("spec: {containers: [{name: executor, image: x}]}\n", "sets image of the container executor"),
        ("spec: {terminationGracePeriodSeconds: soon}\n", "not a number of seconds"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        pod_template.read(path)


def _kubeconfig(folder: Path, **user: object) -> Path:
    path = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.mark.feature("D4.kubernetes")
async def test_a_credential_plug_in_is_asked_again_when_its_token_was_refused(tmp_path: Path) -> None:
    program = tmp_path / "plug-in"
    program.write_text(
        '#!/bin/sh\necho x >> "$1"\n'
        'echo "{\\"status\\": {\\"token\\": \\"t$(wc -l < "$1" | tr -d " ")\\", \\"expirationTimestamp\\": \\"2999-01-01T00:00:00Z\\"}}"\n'
    )
    program.chmod(0o755)
    path = _kubeconfig(tmp_path, exec={"command": "./plug-in", "args": [str(tmp_path / "calls")]})
    access = open_access(KubernetesSettings("i", kubeconfig=str(path)), {"PATH": "/usr/bin:/bin"})
    assert access.server == "https://127.0.0.1:1"
    assert [await access.headers() for _ in range(2)] == [{"Authorization": "Bearer t1"}] * 2
    access.forget()
    assert await access.headers() == {"Authorization": "Bearer t2"}


@pytest.mark.feature("D4.kubernetes")
async def test_a_token_file_is_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    access = open_access(KubernetesSettings("i", kubeconfig=str(_kubeconfig(tmp_path, tokenFile="token"))), {})
    assert await access.headers() == {"Authorization": "Bearer secret"}


@pytest.mark.feature("D7.parameters")
@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (KubernetesSettings("i", auth_type="in_cluster"), "AUTH_TYPE: KUBERNETES_SERVICE_HOST is not set"),
        (KubernetesSettings("i", kubeconfig="/nowhere"), "KUBECONFIG: /nowhere cannot be read"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_a_problem_of_the_start(chosen: KubernetesSettings, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        open_access(chosen, {})


@pytest.mark.feature("D7.parameters")
def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    chosen = KubernetesSettings("i", kubeconfig=str(_kubeconfig(tmp_path, token="t")), context="there")
    with pytest.raises(Invalid, match=r"KUBECONFIG: .* has no entry 'there' in contexts"):
        open_access(chosen, {})


@pytest.mark.feature("D7.parameters")
def test_a_proxy_that_only_the_kubeconfig_names_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path, token="t")
    document = json.loads(path.read_text())
    document["clusters"][0]["cluster"]["proxy-url"] = "http://proxy.example:3128"
    path.write_text(json.dumps(document))
    with pytest.raises(Invalid, match=r"KUBECONFIG: .* has a proxy-url, which is not used: set HTTPS_PROXY"):
        open_access(KubernetesSettings("i", kubeconfig=str(path)), {})
