"""Template parameters and resource schemas."""

from __future__ import annotations

from typing import Any

import pytest

from localaws.clients import Clients
from localaws.cloudformation.custom_resource import as_strings
from localaws.cloudformation.parameters import ParameterValues, resolve_parameters
from localaws.cloudformation.requests import bucket_and_key
from localaws.cloudformation.resources.base import ResourceContext
from localaws.cloudformation.resources.registry import RESOURCE_TYPES
from localaws.cloudformation.resources.s3 import lifecycle_rule
from localaws.cloudformation.schema import resource_schema
from localaws.cloudformation.template import TemplateError
from localaws.protocol import Scope, ServiceError


def resolve(
    declared: dict[str, Any], previous: dict[str, str] | None = None, **values: str
) -> ParameterValues:
    requested = [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]
    stored = {"/image": "v1", "/list": "a, b"}
    return resolve_parameters({"Parameters": declared}, requested, previous or {}, stored.__getitem__)


def test_values_are_given_then_default() -> None:
    declared = {"A": {"Type": "String", "Default": "d"}, "B": {"Type": "Number", "Default": 3}}
    assert resolve(declared, A="x").resolved == {"A": "x", "B": "3"}


def test_ssm_and_list_types_are_resolved() -> None:
    declared = {
        "One": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/image"},
        "Many": {"Type": "AWS::SSM::Parameter::Value<List<String>>", "Default": "/list"},
        "Listed": {"Type": "CommaDelimitedList", "Default": "x, y"},
    }
    values = resolve(declared)
    assert values.resolved == {"One": "v1", "Many": ["a", "b"], "Listed": ["x", "y"]}
    assert values.given["One"] == "/image"
    assert values.ssm == {"One": "v1", "Many": "a, b"}


@pytest.mark.parametrize(
    ("declaration", "value", "message"),
    [
        ({"AllowedValues": ["a"]}, "b", "'P' must be one of AllowedValues"),
        ({"AllowedPattern": "[a-z]+"}, "a1", r"must match pattern \[a-z\]\+"),
        ({"MinLength": 3}, "ab", "at least 3 characters"),
        ({"MaxLength": "1"}, "ab", "at most 1 characters"),
        ({"Type": "Number"}, "x", "must be a number"),
        ({"Type": "Number", "MaxValue": 3}, "4", "not greater than 3"),
        ({"Type": "Number", "MinValue": 3}, "2", "not less than 3"),
        ({"AllowedValues": ["a"], "ConstraintDescription": "be nice"}, "b", "constraint: be nice"),
    ],
)
def test_constraints(declaration: dict[str, Any], value: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        resolve({"P": {"Type": "String", **declaration}}, P=value)


def test_missing_and_unknown_parameters_are_named() -> None:
    with pytest.raises(TemplateError, match=r"\[A, B\] must have values"):
        resolve({"A": {"Type": "String"}, "B": {"Type": "String"}})
    with pytest.raises(TemplateError, match=r"\[X\] do not exist in the template"):
        resolve({}, X="1")


def test_custom_resources_get_strings() -> None:
    assert as_strings({"a": [1, True, None, {"b": 1.5}], "c": "x"}) == {
        "a": ["1", "true", "None", {"b": "1.5"}],
        "c": "x",
    }


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:4600/cdk-assets/a/b.json", ("cdk-assets", "a/b.json")),
        ("https://s3.eu-west-1.amazonaws.com/cdk-assets/a.json", ("cdk-assets", "a.json")),
        ("https://cdk-assets.s3.eu-west-1.amazonaws.com/a%20b.json", ("cdk-assets", "a b.json")),
    ],
)
def test_template_urls(url: str, found: tuple[str, str]) -> None:
    assert bucket_and_key(url) == found


def test_a_template_url_without_a_key_is_refused() -> None:
    with pytest.raises(ServiceError, match="valid S3 object"):
        bucket_and_key("https://example.com/bucket")


def test_every_resource_type_names_properties_that_aws_has() -> None:
    for name, kind in RESOURCE_TYPES.items():
        schema = resource_schema(name)
        if schema is not None and name != "AWS::CDK::Metadata":
            assert kind.applied | kind.recorded <= schema.properties, name
            assert not kind.applied & kind.recorded, name
            assert schema.required <= kind.applied | kind.recorded, name


def test_what_replaces_is_the_registrys_word() -> None:
    bucket, function = RESOURCE_TYPES["AWS::S3::Bucket"], RESOURCE_TYPES["AWS::Lambda::Function"]
    assert bucket.replaced_by("BucketName", "a", "b")
    assert not bucket.replaced_by("Tags", [], [{"Key": "a", "Value": "b"}])
    assert function.replaced_by("FunctionName", "a", "b")
    assert not function.replaced_by("Code", {"S3Key": "a"}, {"S3Key": "b"})
    assert RESOURCE_TYPES["AWS::SageMaker::Model"].replaced_by("PrimaryContainer", {}, {"Image": "x"})
    assert resource_schema("AWS::Nothing::AtAll") is None


@pytest.mark.parametrize("longest", [63, 64, 80, 255])
def test_generated_names_fit_and_differ(longest: int) -> None:
    scope, clients = Scope("123456789012", "us-east-1"), Clients("http://127.0.0.1:1")
    context = ResourceContext(scope, "id", "A-Stack" * 20, "Logical" * 12, "AWS::S3::Bucket", clients)
    names = {context.name(longest) for _ in range(20)} | {context.name(longest, lower=True)}
    assert len(names) == 21
    assert all(len(name) <= longest and name[0] in "Aa" and name[-1] != "-" for name in names)
    assert context.name(longest, lower=True).islower()


def test_lifecycle_rules_are_regrouped() -> None:
    rule = {
        "Status": "Enabled",
        "Id": "old",
        "ExpirationInDays": "30",
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    }
    assert lifecycle_rule(rule) == {
        "Status": "Enabled",
        "ID": "old",
        "Filter": {"Prefix": ""},
        "Expiration": {"Days": 30},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    }
    with pytest.raises(Exception, match="does not support Surprise"):
        lifecycle_rule({"Status": "Enabled", "Surprise": 1})
