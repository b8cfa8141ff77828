"""semif.json and templates as the operator's commands read them, and as the app writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from semif.assembly import compute_types, fleet_of, parse_plan, read_plan, read_templates
from semif.errors import NotReadableError, UsageError
from stacks.assembly_document import assembly_document
from stacks.prices import load_prices
from stacks.settings import parse_environments
from tests.semif.assemblies import decisions_template, write_assembly
from tests.semif.plans import plan

EXAMPLES = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["cdk.json", "examples/prod.json"])
def test_what_the_app_writes_is_what_the_commands_read(name: str) -> None:
    document: Any = json.loads((EXAMPLES / name).read_text())
    written = document["context"]["environments"] if "context" in document else [document]
    environments = parse_environments(written, {"AWS_REGION": "eu-central-1"})
    found: Any = assembly_document(environments, {e.name: 6 for e in environments}, load_prices())
    for env, one in found["environments"].items():
        read = parse_plan(env, one)
        assert read.stacks[0] == f"semif-{env}-artifacts"
        assert [endpoint.stack in read.stacks for endpoint in read.endpoints] == [True] * len(read.endpoints)
        for endpoint in read.endpoints:
            assert endpoint.types
            assert all(endpoint.instances(instance_type) >= 1 for instance_type in endpoint.types)
            assert endpoint.worst_case_s > 0


def test_templates_are_found_in_the_stage(tmp_path: Path) -> None:
    template = decisions_template("dev")
    assembly = write_assembly(tmp_path, "dev", "eu-central-1", {"decisions": template})
    assert read_templates(assembly) == {"semif-dev-decisions": template}
    assert read_plan(assembly, "dev").region == "eu-central-1"


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    assembly = write_assembly(tmp_path, "dev", "eu-central-1", {"decisions": decisions_template("dev")})
    with pytest.raises(UsageError, match="has no environment 'prod'; it has dev"):
        read_plan(assembly, "prod")
    with pytest.raises(UsageError) as absent:
        read_plan(tmp_path / "nowhere", "dev")
    assert absent.value.code == "no_assembly"


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"version": 2}', '{"version": 1, "environments": {"dev": {}}}']
)
def test_a_damaged_document_is_an_error_with_its_path(damage: str, tmp_path: Path) -> None:
    (tmp_path / "semif.json").write_text(damage)
    with pytest.raises(NotReadableError, match=r"semif\.json") as error:
        read_plan(tmp_path, "dev")
    assert error.value.code == "assembly_not_readable"


def test_stacks_of_a_longer_name_are_another_environments() -> None:
    one = plan()
    assert one.owns("semif-dev-decisions")
    assert one.owns("semif-dev-former")
    assert not one.owns("semif-prod-decisions")
    document = {"dev": one, "dev-2": one}
    with_other = type(one)(**{**one.__dict__, "others": tuple(document)[1:]})
    assert not with_other.owns("semif-dev-2-decisions")
    assert with_other.owns("semif-dev-former")


def test_what_needs_no_other_instances_is_no_other_fleet() -> None:
    def template(**changes: Any) -> dict[str, Any]:
        pool = {"EndpointName": "e", "InitialInstanceCount": "1", "Tags": {"a": "b"}, **changes}
        return {
            "Resources": {
                "Pool": {"Type": "Custom::InstancePoolEndpoint", "Properties": pool},
                "Model": {"Type": "AWS::SageMaker::Model", "Properties": {"Image": "i"}},
                "Role": {"Type": "AWS::IAM::Role", "Properties": {"Path": str(changes)}},
            }
        }

    same = fleet_of(template())
    assert fleet_of(template(Tags={}, Update={"Type": "canary"}, RollbackAlarm1="x")) == same
    assert fleet_of(template(InitialInstanceCount="2")) != same


def test_the_size_of_each_builds_machine() -> None:
    project = {"Name": "semif-dev-archive", "Environment": {"ComputeType": "BUILD_GENERAL1_SMALL"}}
    template = {"Resources": {"P": {"Type": "AWS::CodeBuild::Project", "Properties": project}}}
    assert compute_types({"semif-dev-builds": template}) == {"semif-dev-archive": "BUILD_GENERAL1_SMALL"}
