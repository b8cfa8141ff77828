"""Templates: parsing, references and the intrinsic functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localaws.cloudformation.intrinsics import NO_VALUE, UNKNOWN, Evaluation
from localaws.cloudformation.template import TemplateError, parse_template, references


class Resources:
    """A bucket B with one attribute."""

    def ref(self, logical_id: str) -> str:
        return f"{logical_id.lower()}-id"

    def attribute(self, logical_id: str, name: str) -> Any:
        if name != "Arn":
            raise TemplateError(f"no {name}")
        return f"arn:aws:s3:::{self.ref(logical_id)}"


def evaluation(**sections: Any) -> Evaluation:
    def imported(name: str) -> str:
        if name != "shared":
            raise TemplateError(f"No export named {name} found.")
        return "imported"

    return Evaluation(
        {"Resources": {"B": {"Type": "AWS::S3::Bucket"}}, **sections},
        {"Text": "a,b", "List": ["a", "b"]},
        {"AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012", "AWS::StackName": "s"},
        Resources(),
        imported,
        lambda service, name: f"<{service} {name}>",
    )


@pytest.mark.parametrize(
    ("node", "value"),
    [
        ({"Ref": "Text"}, "a,b"),
        ({"Ref": "List"}, ["a", "b"]),
        ({"Ref": "AWS::Region"}, "eu-west-1"),
        ({"Ref": "B"}, "b-id"),
        ({"Fn::GetAtt": ["B", "Arn"]}, "arn:aws:s3:::b-id"),
        ({"Fn::GetAtt": "B.Arn"}, "arn:aws:s3:::b-id"),
        ({"Fn::Join": ["-", ["x", {"Ref": "B"}, 3, True]]}, "x-b-id-3-true"),
        ({"Fn::Join": ["+", {"Ref": "List"}]}, "a+b"),
        ({"Fn::Split": [",", {"Ref": "Text"}]}, ["a", "b"]),
        ({"Fn::Select": ["1", {"Fn::Split": [",", {"Ref": "Text"}]}]}, "b"),
        (
            {"Fn::Sub": "${AWS::AccountId}/${B}/${B.Arn}/${!Literal}"},
            "123456789012/b-id/arn:aws:s3:::b-id/${Literal}",
        ),
        ({"Fn::Sub": ["${X} ${Text}", {"X": {"Ref": "B"}}]}, "b-id a,b"),
        ({"Fn::FindInMap": ["M", {"Ref": "AWS::Region"}, "ami"]}, "ami-1"),
        ({"Fn::ImportValue": {"Fn::Sub": "shared"}}, "imported"),
        ({"Fn::Base64": "hi"}, "aGk="),
        ({"Fn::GetAZs": ""}, ["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
        ({"Fn::If": ["Yes", 1, {"Fn::Nothing": 0}]}, 1),
        ({"Fn::If": ["No", {"Fn::Nothing": 0}, 2]}, 2),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
        ("{{resolve:ssm:/a/b:3}}!", "<ssm /a/b:3>!"),
        (
            {"Condition": {"Bool": {"aws:SecureTransport": False}}},
            {"Condition": {"Bool": {"aws:SecureTransport": False}}},
        ),
        ({"Fn::Join": ["-", [UNKNOWN, "x"]]}, f"{UNKNOWN}-x"),
        ({"Fn::Select": [5, {"Fn::Split": [":", UNKNOWN]}]}, UNKNOWN),
    ],
)
def test_intrinsic_functions(node: Any, value: Any) -> None:
    sections = {
        "Mappings": {"M": {"eu-west-1": {"ami": "ami-1"}}},
        "Conditions": {
            "Yes": {"Fn::And": [{"Fn::Equals": ["a", "a"]}, {"Condition": "AlsoYes"}]},
            "AlsoYes": {"Fn::Or": [{"Fn::Equals": ["a", "b"]}, {"Fn::Not": [{"Condition": "No"}]}]},
            "No": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Text"}, "a,b"]}]},
        },
    }
    assert evaluation(**sections).value(node) == value


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"Fn::Nothing": 1}, "intrinsic function Fn::Nothing"),
        ({"Ref": "Unknown"}, r"\[Unknown\]"),
        ({"Fn::GetAtt": ["B", "Nope"]}, "no Nope"),
        ({"Fn::GetAtt": "B"}, "Fn::GetAtt object requires two"),
        ({"Fn::Select": [2, ["a", "b"]]}, "nonexistent value at index 2"),
        ({"Fn::Join": ["-", [["nested"]]]}, "must be a string"),
        ({"Fn::Split": ["", "x"]}, "non-empty delimiter"),
        ({"Fn::FindInMap": ["M", "a", "b"]}, "mapping for M::a::b"),
        ({"Fn::If": ["Missing", 1, 2]}, "condition dependency Missing"),
        ({"Fn::ImportValue": "other"}, "No export named other"),
        ({"Fn::Sub": "${B}", "other": 1}, "Fn::Sub must be the only key"),
        ({"Fn::Sub": "${List}"}, "must be a string"),
    ],
)
def test_wrong_values_are_named(node: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        evaluation().value(node)


def test_conditions_in_a_circle_are_refused() -> None:
    conditions = {"A": {"Fn::Not": [{"Condition": "B"}]}, "B": {"Fn::Not": [{"Condition": "A"}]}}
    with pytest.raises(TemplateError, match="Circular dependency in conditions"):
        evaluation(Conditions=conditions).condition("A")


def test_yaml_short_forms_are_the_long_ones() -> None:
    text = """
    AWSTemplateFormatVersion: 2010-09-09
    Parameters: {Name: {Type: String}}
    Conditions: {Named: !Not [!Equals [!Ref Name, ""]]}
    Resources:
      B:
        Type: AWS::S3::Bucket
        Condition: Named
        Properties:
          BucketName: !If [Named, !Sub "${Name}-x", !Ref AWS::NoValue]
          Tags: [{Key: arn, Value: !GetAtt C.Arn}, {Key: joined, Value: !Join ["-", [a, !Select [0, [b]]]]}]
      C: {Type: "AWS::S3::Bucket"}
    """
    template = parse_template(text)
    assert template["AWSTemplateFormatVersion"] == "2010-09-09"
    assert template["Conditions"] == {"Named": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Name"}, ""]}]}}
    properties = template["Resources"]["B"]["Properties"]
    assert properties["BucketName"] == {
        "Fn::If": ["Named", {"Fn::Sub": "${Name}-x"}, {"Ref": "AWS::NoValue"}]
    }
    assert properties["Tags"][0]["Value"] == {"Fn::GetAtt": ["C", "Arn"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Template format error"),
        ("a: [", "Template format error"),
        ("[]", "unsupported structure"),
        ("Resources: {}", "At least one Resources member"),
        ("Resources: {B: {Properties: {}}}", "Every resource must have a Type"),
        ("Resources: {b-c: {Type: T}}", "non alphanumeric"),
        ("Resource: {B: {Type: T}}", r"\['Resource'\]"),
        ("Transform: AWS::Serverless-2016-10-31\nResources: {B: {Type: T}}", "AWS::Serverless"),
        ("Resources: {B: {Type: T}}\nOutputs: {X: {Value: !Ref Y}}", r"\[Y\] in the Outputs block"),
    ],
)
def test_wrong_templates_are_refused(text: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        parse_template(text)


def test_references_are_found_wherever_they_hide() -> None:
    node = [
        {"Ref": "A"},
        {"Fn::Sub": ["${B} ${B2.Arn} ${V} ${!No}", {"V": {"Fn::GetAtt": ["C", "Arn"]}}]},
        {"deep": {"Fn::If": ["x", {"Fn::GetAtt": "D.E.F"}, 1]}},
    ]
    assert set(references(node)) == {("A", None), ("B", None), ("B2", "Arn"), ("C", "Arn"), ("D", "E.F")}


def plain(letters: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return JSON values that hold no function."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(letters, max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
        ),
        max_leaves=12,
    )


anything = plain(st.characters(exclude_characters="{}$"))
ascii_only = plain(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="{}$"))


@given(anything)
def test_values_without_functions_stay_as_they_are(value: Any) -> None:
    assert evaluation().value(value) == value
    assert not set(references(value))


@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6))
def test_split_undoes_join(parts: list[str]) -> None:
    assert evaluation().value({"Fn::Split": ["|", {"Fn::Join": ["|", parts]}]}) == parts
    for index, part in enumerate(parts):
        assert evaluation().value({"Fn::Select": [index, parts]}) == part


@given(anything, st.booleans())
def test_an_if_is_one_of_its_branches(value: Any, truth: bool) -> None:
    conditions = {"C": {"Fn::Equals": [truth, True]}}
    chosen = evaluation(Conditions=conditions).value({"Fn::If": ["C", value, {"Ref": "AWS::NoValue"}]})
    assert chosen == (value if truth else NO_VALUE)


@given(st.dictionaries(st.sampled_from("ABCD"), ascii_only, min_size=1))
def test_json_and_yaml_read_the_same(metadata: dict[str, Any]) -> None:
    document = {"Metadata": metadata, "Resources": {"B": {"Type": "AWS::S3::Bucket"}}}
    text = json.dumps(document)
    assert parse_template(text) == parse_template(f"# YAML\n{text}") == document
