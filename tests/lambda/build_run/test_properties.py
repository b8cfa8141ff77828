"""What CloudFormation sends, as strings, and what is made of it."""

from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from build_run.properties import Archive, Image, PropertyError, parse_operation, parse_wanted


def event(events: ModuleType, request_type: str = "Create", **more: Any) -> dict[str, Any]:
    return {
        "RequestType": request_type,
        "RequestId": "r",
        "StackId": events.STACK_ID,
        "LogicalResourceId": "Build",
        "PhysicalResourceId": "semif-dev-image-cpu-build-run",
        "ResourceProperties": events.image_properties(),
        "Data": {"StartedAt": "2026-01-01T00:00:00.123456+00:00"},
    } | more


def test_an_operation_parses(events: ModuleType) -> None:
    operation = parse_operation(event(events))
    assert operation.project_name == "semif-dev-image-cpu"
    assert operation.started_at == datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)
    assert operation.wanted is not None
    assert operation.wanted.timeout_minutes == 30
    assert operation.wanted.result == Image(
        "semif-dev-endpoint",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/semif-dev-endpoint",
        f"cpu-{events.HASH[:16]}",
    )


def test_an_archive_parses(events: ModuleType) -> None:
    wanted = parse_wanted(events.archive_properties(sha256=""))
    assert wanted.result == Archive("models", f"models/{events.HASH}/", "")
    assert wanted.environment == (("SEMIF_BUCKET", "models"), ("SEMIF_PREFIX", f"models/{events.HASH}/"))


def test_a_deletion_goes_by_the_physical_id_alone(events: ModuleType) -> None:
    operation = parse_operation(event(events, "Delete", ResourceProperties={"Kind": "nonsense"}))
    assert (operation.project_name, operation.wanted) == ("semif-dev-image-cpu", None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"ProjectName": ""}, "ProjectName"),
        ({"ProjectName": "a project"}, "ProjectName"),
        ({"Kind": "picture"}, "Kind"),
        ({"ContentHash": "abc"}, "ContentHash"),
        ({"ContentHash": "A" * 64}, "ContentHash"),
        ({"SourceLocation": "s3://bucket/key"}, "SourceLocation"),
        ({"SourceLocation": "bucket"}, "SourceLocation"),
        ({"Environment": [{"name": "A"}]}, "Environment"),
        ({"Environment": {"A": 1}}, "Environment"),
        ({"Environment": {"A-B": "1"}}, "Environment"),
        ({"Environment": {"SEMIF_REQUEST_ID": "1"}}, "Environment"),
        ({"TimeoutMinutes": "0"}, "TimeoutMinutes"),
        ({"TimeoutMinutes": 30}, "TimeoutMinutes"),
        ({"ImageTag": ""}, "ImageTag"),
        ({"BaseImageDigest": 5}, "BaseImageDigest"),
        ({"Prefix": "models/"}, "Prefix"),
        ({"Projectname": "x"}, "Projectname"),
    ],
)
def test_errors_name_the_property(events: ModuleType, change: dict[str, Any], named: str) -> None:
    with pytest.raises(PropertyError, match=rf"^invalid_property: {named} .* Next: "):
        parse_wanted(events.image_properties() | change)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"Prefix": "models/x"}, "Prefix"),
        ({"Prefix": "/models/"}, "Prefix"),
        ({"BucketName": None}, "BucketName"),
        ({"ModelSha256": "abc"}, "ModelSha256"),
        ({"ModelRevision": None}, "ModelRevision"),
        ({"ImageTag": "x"}, "ImageTag"),
    ],
)
def test_errors_of_an_archive(events: ModuleType, change: dict[str, Any], named: str) -> None:
    with pytest.raises(PropertyError, match=rf"^invalid_property: {named} "):
        parse_wanted(events.archive_properties() | change)


@pytest.mark.parametrize("kind", ["image", "archive"])
def test_what_must_be_there(events: ModuleType, kind: str) -> None:
    properties = getattr(events, f"{kind}_properties")()
    optional = {"ServiceToken", "Environment", "BaseImageDigest", "ModelRevision", "ModelSha256"}
    for name in set(properties) - optional:
        with pytest.raises(PropertyError, match=name):
            parse_wanted({key: value for key, value in properties.items() if key != name})


@pytest.mark.parametrize("data", [None, {}, {"StartedAt": "yesterday"}, {"StartedAt": "2026-01-01T00:00:00"}])
def test_a_missing_beginning_is_a_bug(events: ModuleType, data: object) -> None:
    with pytest.raises(PropertyError, match=r"^invalid_property: Data\.StartedAt .* a bug"):
        parse_operation(event(events, Data=data))


def test_the_text_of_an_error_fits(events: ModuleType) -> None:
    with pytest.raises(PropertyError) as caught:
        parse_wanted(events.image_properties() | {"ImageTag": {"x": "y" * 5000}})
    assert len(str(caught.value)) <= 1000
