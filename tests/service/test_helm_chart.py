"""The Helm chart: helm and the schemas of Kubernetes accept it, its settings exist, and it gives no rights."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import setwise
from setwise.service.settings import PREFIX, Settings

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "setwise"
HELM = Path(sys.executable).parent / "helm"
EVERYTHING = ("--set", "ingress.enabled=true,ingress.tlsSecret=tls,ingress.className=nginx,data.claim=tables")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def manifests():
    done = helm("template", "demo", str(CHART), *EVERYTHING)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_helm_accepts_the_chart():
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout


def test_the_schemas_of_kubernetes_accept_what_is_rendered(manifests, tmp_path):
    import kubernetes_validate

    assert {each["kind"] for each in manifests} == {"Deployment", "Service", "Ingress", "Job"}
    for each in manifests:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("wrong", ["replicas=0", "replicas=two", "image.repositry=x", "settings.WORKERS=2"])
def test_values_that_cannot_be_are_refused_by_the_schema(wrong):
    done = helm("template", "demo", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert wrong.partition("=")[0].rpartition(".")[2] in done.stderr


def test_every_variable_is_a_setting_and_the_versions_agree(manifests):
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for each in manifests:
        if each["kind"] in {"Deployment", "Job"}:
            (container,) = each["spec"]["template"]["spec"]["containers"]
            assert {variable["name"] for variable in container["env"]} <= known
            assert container["image"].endswith(f":{setwise.__version__}")


def test_containers_have_no_root_no_capabilities_and_nothing_to_write_but_their_volumes(manifests):
    pods = [each["spec"]["template"]["spec"] for each in manifests if each["kind"] in {"Deployment", "Job"}]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_replicas_are_given_the_role_that_cannot_touch_triggers_and_the_migration_the_owner(manifests):
    secrets = {
        each["kind"]: container["env"][0]["valueFrom"]["secretKeyRef"]["name"]
        for each in manifests
        if each["kind"] in {"Deployment", "Job"}
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert secrets == {"Deployment": "setwise-replica", "Job": "setwise-owner"}
