"""CloudFormation's own API, through boto3: order, replacement, rollback, exports, change sets, refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.localaws.stacks import PARAMETER, Stacks, parameter, template


def test_resources_are_made_in_the_order_of_their_needs_and_deleted_in_reverse(stacks: Stacks) -> None:
    text = template(
        {
            "Third": parameter({"Fn::Sub": "${Second}!"}, "/order/3"),
            "Second": parameter({"Fn::GetAtt": ["First", "Value"]}, "/order/2"),
            "First": parameter("x", "/order/1", DependsOn="Zeroth"),
            "Zeroth": parameter("x", "/order/0"),
        },
        Outputs={"Last": {"Value": {"Fn::GetAtt": "Third.Value"}}},
    )
    assert stacks.create("order", text) == "CREATE_COMPLETE"
    assert stacks.outputs("order") == {"Last": "/order/2!"}
    made = [name for name, status in stacks.events("order") if status == "CREATE_COMPLETE"]
    assert made == ["Zeroth", "First", "Second", "Third", "order"]
    stack_id = stacks.describe("order")["StackId"]
    assert stacks.delete("order") == "DELETE_COMPLETE"
    deleted = [name for name, status in stacks.events(stack_id) if status == "DELETE_COMPLETE"]
    assert deleted == ["Third", "Second", "First", "Zeroth", "order"]


def test_a_failed_create_leaves_nothing_but_what_is_retained(stacks: Stacks) -> None:
    stacks.ssm.put_parameter(Name="/taken", Value="mine", Type="String")
    resources = {
        "Made": parameter("x", "/made"),
        "Kept": parameter("x", "/kept", DeletionPolicy="Retain"),
        "KeptIfCreated": parameter("x", "/kept-if-created", DeletionPolicy="RetainExceptOnCreate"),
        "Taken": parameter("x", "/taken", DependsOn=["Made", "Kept", "KeptIfCreated"]),
    }
    assert stacks.create("fails", template(resources)) == "ROLLBACK_COMPLETE"
    events = stacks.events("fails")
    assert ("Taken", "CREATE_FAILED") in events
    assert ("Kept", "DELETE_SKIPPED") in events
    assert events.index(("fails", "ROLLBACK_IN_PROGRESS")) < events.index(("Made", "DELETE_COMPLETE"))
    assert "'/taken' already exists" in stacks.reasons("fails")
    assert "The following resource(s) failed to create: [Taken]" in stacks.reasons("fails")
    values = [stacks.value(name) for name in ("/taken", "/made", "/kept", "/kept-if-created")]
    assert values == ["mine", None, "x", None]
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        stacks.update("fails", template(resources))
    stacks.ssm.delete_parameters(Names=["/taken", "/kept"])


def test_a_failed_update_goes_back_to_the_old_properties(stacks: Stacks) -> None:
    before = {"A": parameter("old", "/back/a"), "B": parameter("old", "/back/b")}
    assert stacks.create("back", template(before)) == "CREATE_COMPLETE"
    stacks.ssm.put_parameter(Name="/back/taken", Value="mine", Type="String")
    after = {
        "A": parameter("new", "/back/a"),
        "B": parameter("new", "/back/renamed"),
        "C": parameter("new", "/back/c"),
        "D": parameter("new", "/back/taken", DependsOn=["A", "B", "C"]),
    }
    assert stacks.update("back", template(after)) == "UPDATE_ROLLBACK_COMPLETE"
    names = ("/back/a", "/back/b", "/back/renamed", "/back/c", "/back/taken")
    assert [stacks.value(name) for name in names] == ["old", "old", None, None, "mine"]
    resources = stacks.api.describe_stack_resources(StackName="back")["StackResources"]
    found = {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in resources}
    assert found == {"A": "/back/a", "B": "/back/b"}
    stacks.ssm.delete_parameter(Name="/back/taken")
    assert stacks.update("back", template(after)) == "UPDATE_COMPLETE"
    assert [stacks.value(name) for name in names] == ["new", None, "new", "new", "new"]


def test_a_replacement_is_made_before_its_users_change_and_the_old_one_goes_last(stacks: Stacks) -> None:
    def text(name: str) -> str:
        return template({"Replaced": parameter("x", name), "User": parameter({"Ref": "Replaced"}, "/user")})

    assert stacks.create("replace", text("/replace/1")) == "CREATE_COMPLETE"
    assert stacks.update("replace", text("/replace/2")) == "UPDATE_COMPLETE"
    assert stacks.events("replace") == [
        ("replace", "UPDATE_IN_PROGRESS"),
        ("Replaced", "UPDATE_IN_PROGRESS"),
        ("Replaced", "UPDATE_COMPLETE"),
        ("User", "UPDATE_IN_PROGRESS"),
        ("User", "UPDATE_COMPLETE"),
        ("replace", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"),
        ("Replaced", "DELETE_IN_PROGRESS"),
        ("Replaced", "DELETE_COMPLETE"),
        ("replace", "UPDATE_COMPLETE"),
    ]
    assert stacks.value("/replace/1") is None
    assert stacks.value("/user") == "/replace/2"


def test_an_update_replace_policy_keeps_the_old_resource(stacks: Stacks) -> None:
    kept = {"UpdateReplacePolicy": "Retain"}
    assert stacks.create("keep", template({"P": parameter("x", "/keep/1", **kept)})) == "CREATE_COMPLETE"
    assert stacks.update("keep", template({"P": parameter("x", "/keep/2", **kept)})) == "UPDATE_COMPLETE"
    assert stacks.value("/keep/1") == "x"
    assert ("P", "DELETE_SKIPPED") in stacks.events("keep")
    stacks.ssm.delete_parameter(Name="/keep/1")


def test_an_export_in_use_can_be_neither_changed_nor_deleted(stacks: Stacks) -> None:
    def exporting(value: str | None) -> str:
        export = {"X": {"Value": value, "Export": {"Name": "shared"}}} if value else {}
        return template({"P": parameter("x")}, Outputs=export)

    assert stacks.create("exporter", exporting("1")) == "CREATE_COMPLETE"
    using = template({"P": parameter({"Fn::ImportValue": "shared"}, "/importer")})
    assert stacks.create("importer", using) == "CREATE_COMPLETE"
    assert stacks.value("/importer") == "1"
    assert stacks.api.list_imports(ExportName="shared")["Imports"] == ["importer"]

    assert stacks.update("exporter", exporting("2")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Export shared cannot be updated as it is in use by importer" in stacks.reasons("exporter")
    assert stacks.update("exporter", exporting(None)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Export shared cannot be deleted as it is in use by importer" in stacks.reasons("exporter")
    assert stacks.delete("exporter") == "DELETE_FAILED"
    assert stacks.outputs("exporter") == {"X": "1"}

    assert stacks.create("second", exporting("3")) == "ROLLBACK_COMPLETE"
    assert "Export with name shared is already exported by stack exporter" in stacks.reasons("second")
    assert stacks.update("importer", template({"P": parameter("own", "/importer")})) == "UPDATE_COMPLETE"
    assert stacks.delete("exporter") == "DELETE_COMPLETE"


def test_a_missing_export_fails_the_resource(stacks: Stacks) -> None:
    assert (
        stacks.create("lonely", template({"P": parameter({"Fn::ImportValue": "no"})})) == "ROLLBACK_COMPLETE"
    )
    assert "No export named no found" in stacks.reasons("lonely")


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ({"Type": "AWS::Nothing::AtAll"}, r"Unrecognized resource types: \[AWS::Nothing::AtAll\]"),
        ({"Type": "AWS::EC2::VPC"}, r"does not have these resource types: \[AWS::EC2::VPC\]"),
        ({"Type": PARAMETER, "Properties": {"Value": {"Ref": "No"}}}, r"dependencies \[No\]"),
        ({"Type": PARAMETER, "Properties": {"Value": {"Fn::GetAtt": ["R", "Value"]}}}, r"Circular .* \[R\]"),
        ({"Type": PARAMETER, "DependsOn": "Nobody"}, r"dependencies \[Nobody\]"),
        ({"Type": PARAMETER, "Deletion": "Retain"}, "Invalid template resource property 'Deletion'"),
    ],
)
def test_a_wrong_template_is_refused(stacks: Stacks, resource: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        stacks.create("wrong", template({"R": resource}))
    with pytest.raises(ClientError, match="does not exist"):
        stacks.describe("wrong")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"Type": "String", "Value": {"Fn::Cidr": ["10.0.0.0/16", 1]}}, "intrinsic function Fn::Cidr"),
        ({"Type": "String", "Value": "x", "Valeu": "y"}, r"extraneous key \[Valeu\] is not permitted"),
        ({"Type": "String"}, r"required key \[Value\] not found"),
        ({"Type": "String", "Value": "x", "Policies": "[]"}, "does not support property Policies"),
        ({"Type": "String", "Value": "{{resolve:secretsmanager:x}}"}, "resolve:secretsmanager"),
    ],
)
def test_a_wrong_resource_fails_by_name(stacks: Stacks, properties: dict[str, Any], message: str) -> None:
    status = stacks.create("wrong-resource", template({"R": {"Type": PARAMETER, "Properties": properties}}))
    assert status == "ROLLBACK_COMPLETE"
    failed = [event for event in stacks.events("wrong-resource") if event[1] == "CREATE_FAILED"]
    assert failed == [("R", "CREATE_FAILED")]
    reasons = stacks.reasons("wrong-resource")
    assert re.search(message, reasons), reasons


def test_a_bucket_that_is_not_empty_is_not_deleted(stacks: Stacks) -> None:
    s3 = stacks.aws.client("s3")
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"VersioningConfiguration": {"Status": "Enabled"}}}
    text = template({"B": bucket}, Outputs={"Name": {"Value": {"Ref": "B"}}})
    assert stacks.create("Full-Bucket", text) == "CREATE_COMPLETE"
    name = stacks.outputs("Full-Bucket")["Name"]
    assert name.startswith("full-bucket-b-")
    s3.put_object(Bucket=name, Key="model", Body=b"x")
    s3.delete_object(Bucket=name, Key="model")
    assert stacks.delete("Full-Bucket") == "DELETE_FAILED"
    assert "is not empty" in stacks.reasons("Full-Bucket")
    for kind in ("Versions", "DeleteMarkers"):
        for item in s3.list_object_versions(Bucket=name)[kind]:
            s3.delete_object(Bucket=name, Key="model", VersionId=item["VersionId"])
    assert stacks.delete("Full-Bucket") == "DELETE_COMPLETE"


def test_a_protected_stack_is_not_deleted(stacks: Stacks) -> None:
    text = template({"P": parameter("x", "/protected")})
    assert stacks.create("protected", text, EnableTerminationProtection=True) == "CREATE_COMPLETE"
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        stacks.api.delete_stack(StackName="protected")
    assert stacks.value("/protected") == "x"


def test_parameters_keep_their_previous_values(stacks: Stacks) -> None:
    stacks.ssm.put_parameter(Name="/image", Value="v1", Type="String")
    declared = {
        "Mode": {"Type": "String", "AllowedValues": ["fast", "slow"]},
        "Image": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/image"},
    }
    value = {"Fn::Join": ["-", [{"Ref": "Mode"}, {"Ref": "Image"}]]}
    text = template({"P": parameter(value, "/parameters")}, Parameters=declared)
    given = [{"ParameterKey": "Mode", "ParameterValue": "fast"}]
    assert stacks.create("parameters", text, Parameters=given) == "CREATE_COMPLETE"
    assert stacks.value("/parameters") == "fast-v1"
    previous = [{"ParameterKey": "Mode", "UsePreviousValue": True}]
    with pytest.raises(ClientError, match="No updates are to be performed"):
        stacks.update("parameters", text, Parameters=previous)
    stacks.ssm.put_parameter(Name="/image", Value="v2", Type="String", Overwrite=True)
    assert stacks.update("parameters", text, Parameters=previous) == "UPDATE_COMPLETE"
    assert stacks.value("/parameters") == "fast-v2"
    with pytest.raises(ClientError, match="must be one of AllowedValues"):
        stacks.update("parameters", text, Parameters=[{"ParameterKey": "Mode", "ParameterValue": "odd"}])
    with pytest.raises(ClientError, match=r"Parameters: \[Mode\] must have values"):
        stacks.create("parameters-2", text)


def test_a_change_set_says_what_will_be_replaced(stacks: Stacks) -> None:
    def text(name: str, value: str) -> str:
        resources = {"Moved": parameter("x", name), "User": parameter({"Ref": "Moved"}, "/changes/user")}
        return template({**resources, "Other": parameter(value, "/changes/other")})

    assert stacks.create("changes", text("/changes/1", "a")) == "CREATE_COMPLETE"
    arguments = {"StackName": "changes", "ChangeSetName": "next"}
    stacks.api.create_change_set(**arguments, TemplateBody=text("/changes/2", "a"))
    found = stacks.api.describe_change_set(**arguments, IncludePropertyValues=True)
    changes = {
        item["ResourceChange"]["LogicalResourceId"]: item["ResourceChange"] for item in found["Changes"]
    }
    assert found["Status"] == "CREATE_COMPLETE"
    assert {name: change["Replacement"] for name, change in changes.items()} == {
        "Moved": "True",
        "User": "False",
    }
    target = changes["Moved"]["Details"][0]["Target"]
    assert (target["Name"], target["RequiresRecreation"]) == ("Name", "Always")
    assert (target["BeforeValue"], target["AfterValue"]) == ("/changes/1", "/changes/2")
    assert changes["User"]["Details"][0]["CausingEntity"] == "Moved"
    assert stacks.value("/changes/1") == "x"

    with pytest.raises(ClientError, match="cannot be created: it exists"):
        stacks.api.create_change_set(**arguments, TemplateBody=text("/changes/2", "a"))
    stacks.api.execute_change_set(**arguments)
    assert stacks.settle("changes") == "UPDATE_COMPLETE"
    assert stacks.value("/changes/user") == "/changes/2"
    stacks.api.create_change_set(**arguments, TemplateBody=text("/changes/2", "a"))
    empty = stacks.api.describe_change_set(**arguments)
    assert empty["Status"] == "FAILED"
    assert "didn't contain changes" in empty["StatusReason"]
    with pytest.raises(ClientError, match="cannot be executed"):
        stacks.api.execute_change_set(**arguments)


def test_change_sets_of_one_name_belong_to_their_stacks(stacks: Stacks) -> None:
    for name in ("one", "two"):
        body = template({"P": parameter(name, f"/review/{name}")})
        stacks.api.create_change_set(
            StackName=f"review-{name}", ChangeSetName="same", ChangeSetType="CREATE", TemplateBody=body
        )
        assert stacks.describe(f"review-{name}")["StackStatus"] == "REVIEW_IN_PROGRESS"
    stacks.api.execute_change_set(StackName="review-two", ChangeSetName="same")
    assert stacks.settle("review-two") == "CREATE_COMPLETE"
    assert [stacks.value(f"/review/{name}") for name in ("one", "two")] == [None, "two"]
    for name in ("one", "two"):
        assert stacks.delete(f"review-{name}") == "DELETE_COMPLETE"


def test_roles_need_a_capability(stacks: Stacks) -> None:
    trust = {"Version": "2012-10-17", "Statement": []}
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}}
    with pytest.raises(ClientError, match=r"Requires capabilities : \[CAPABILITY_IAM\]"):
        stacks.create("roles", template({"R": role}))
    assert stacks.create("roles", template({"R": role}), Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"


def test_many_stacks_at_once(stacks: Stacks) -> None:
    names = [f"many-{index}" for index in range(12)]
    for name in names:
        resources = {f"P{index}": parameter(name, f"/{name}/{index}") for index in range(4)}
        stacks._names.append(name)
        stacks.api.create_stack(StackName=name, TemplateBody=template(resources))
    assert {stacks.settle(name) for name in names} == {"CREATE_COMPLETE"}
    assert all(stacks.value(f"/{name}/3") == name for name in names)


def test_a_failed_update_can_wait_for_its_rollback(stacks: Stacks) -> None:
    def text(value: str, name: str, **more: Any) -> str:
        return template({"A": parameter(value, "/waits/a"), "B": parameter("x", name, DependsOn="A"), **more})

    assert stacks.create("waits", text("old", "/waits/1")) == "CREATE_COMPLETE"
    stacks.ssm.put_parameter(Name="/waits/taken", Value="mine", Type="String")
    taken = {"C": parameter("x", "/waits/taken", DependsOn="B")}
    failed = stacks.update("waits", text("new", "/waits/2", **taken), DisableRollback=True)
    assert failed == "UPDATE_FAILED"
    assert [stacks.value(name) for name in ("/waits/a", "/waits/1", "/waits/2")] == ["new", "x", "x"]
    with pytest.raises(ClientError, match="can not be rolled back"):
        stacks.api.continue_update_rollback(StackName="waits")
    stacks.api.rollback_stack(StackName="waits")
    assert stacks.settle("waits") == "UPDATE_ROLLBACK_COMPLETE"
    assert [stacks.value(name) for name in ("/waits/a", "/waits/1", "/waits/2")] == ["old", "x", None]

    assert stacks.update("waits", text("new", "/waits/2", **taken), DisableRollback=True) == "UPDATE_FAILED"
    stacks.ssm.delete_parameter(Name="/waits/taken")
    assert stacks.update("waits", text("new", "/waits/2", **taken)) == "UPDATE_COMPLETE"
    assert [stacks.value(name) for name in ("/waits/1", "/waits/2", "/waits/taken")] == [None, "x", "x"]


def test_a_rule_that_does_not_hold_refuses_the_template(stacks: Stacks) -> None:
    rule = {
        "Assertions": [
            {
                "Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2"], {"Ref": "Version"}]}]},
                "AssertDescription": "CDK bootstrap stack version 6 required.",
            }
        ]
    }
    declared = {"Version": {"Type": "String", "Default": "2"}}
    text = template({"P": parameter("x")}, Rules={"Check": rule}, Parameters=declared)
    with pytest.raises(ClientError, match="CDK bootstrap stack version 6 required"):
        stacks.create("ruled", text)
    newer = [{"ParameterKey": "Version", "ParameterValue": "6"}]
    assert stacks.create("ruled", text, Parameters=newer) == "CREATE_COMPLETE"


def test_a_models_name_stays_as_it_was_created_when_its_tags_change(stacks: Stacks) -> None:
    """ARNs are in lower case; a name read from one would look like another model to whoever uses it."""
    stacks.aws.push_image(
        f"123456789012.dkr.ecr.{stacks.aws.region}.amazonaws.com/named:1",
        command=["true"],
        bind={"port": "P"},
    )

    def text(tag: str) -> str:
        container = {"Image": f"123456789012.dkr.ecr.{stacks.aws.region}.amazonaws.com/named:1"}
        properties = {
            "ExecutionRoleArn": "arn:aws:iam::123456789012:role/any",
            "PrimaryContainer": container,
            "Tags": [{"Key": "team", "Value": tag}],
        }
        named = {"Fn::GetAtt": ["MixedCase", "ModelName"]}
        resources = {"MixedCase": {"Type": "AWS::SageMaker::Model", "Properties": properties}}
        return template(resources, Outputs={"Name": {"Value": named}})

    assert stacks.create("models", text("one")) == "CREATE_COMPLETE"
    name = stacks.outputs("models")["Name"]
    assert name.startswith("MixedCase-")

    assert stacks.update("models", text("two")) == "UPDATE_COMPLETE"

    assert stacks.outputs("models")["Name"] == name
