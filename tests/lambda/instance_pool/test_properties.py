"""What CloudFormation sends, as strings, and what is made of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instance_pool import handler
from instance_pool.properties import PropertyError, configuration_prefix, parse_operation, parse_pool

PROPERTIES: dict[str, Any] = {
    "ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:f",
    "EndpointName": "semif-dev-decisions",
    "ModelName": "Model-abc",
    "VariantName": "AllTraffic",
    "InstanceTypes": ["ml.g6e.xlarge", "ml.c6i.2xlarge"],
    "InitialInstanceCount": "2",
    "ModelDataDownloadTimeoutInSeconds": "900",
    "ContainerStartupHealthCheckTimeoutInSeconds": "600",
    "InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1",
    "Tags": {"team": "x", "env": "dev"},
}


def test_properties_parse() -> None:
    pool = parse_pool(PROPERTIES)
    assert pool.instance_types == ("ml.g6e.xlarge", "ml.c6i.2xlarge")
    assert pool.initial_instance_count == 2
    assert pool.model_data_download_timeout_s == 900
    assert pool.tags == (("env", "dev"), ("team", "x"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"EndpointName": ""}, "EndpointName"),
        ({"EndpointName": "a" * 64}, "EndpointName"),
        ({"ModelName": None}, "ModelName"),
        ({"InstanceTypes": []}, "InstanceTypes"),
        ({"InstanceTypes": "ml.g6e.xlarge"}, "InstanceTypes"),
        ({"InstanceTypes": ["ml.a.b", "ml.a.b"]}, "InstanceTypes"),
        ({"InitialInstanceCount": "0"}, "InitialInstanceCount"),
        ({"InitialInstanceCount": 1}, "InitialInstanceCount"),
        ({"ModelDataDownloadTimeoutInSeconds": "59"}, "ModelDataDownloadTimeoutInSeconds"),
        (
            {"ContainerStartupHealthCheckTimeoutInSeconds": "3601"},
            "ContainerStartupHealthCheckTimeoutInSeconds",
        ),
        ({"Tags": "team=x"}, "Tags"),
        ({"InstancesTypes": ["ml.a.b"]}, "InstancesTypes"),
    ],
)
def test_errors_name_the_property(change: dict[str, Any], named: str) -> None:
    with pytest.raises(PropertyError, match=f"^invalid_property: {named} "):
        parse_pool(PROPERTIES | change)


@pytest.mark.parametrize("name", sorted(set(PROPERTIES) - {"ServiceToken", "Tags", "InferenceAmiVersion"}))
def test_what_must_be_there(name: str) -> None:
    with pytest.raises(PropertyError, match=name):
        parse_pool({key: value for key, value in PROPERTIES.items() if key != name})


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"ModelName": "Model-other"}, False),
        ({"InstanceTypes": ["ml.c6i.2xlarge", "ml.g6e.xlarge"]}, False),
        ({"InitialInstanceCount": "3"}, False),
        ({"InferenceAmiVersion": "al2"}, False),
        ({"EndpointName": "semif-dev-decisionz"}, False),
        ({"Tags": {"team": "y"}}, True),
        ({"ServiceToken": "arn:other"}, True),
    ],
)
def test_the_digest_tells_fleets_apart(change: dict[str, Any], *, same: bool) -> None:
    assert (parse_pool(PROPERTIES).digest == parse_pool(PROPERTIES | change).digest) is same


@given(st.from_regex(r"[a-z0-9](-{0,2}[a-z0-9]){0,20}", fullmatch=True), st.integers(1, 100))
def test_configuration_names_fit_and_read_back(name: str, count: int) -> None:
    pool = parse_pool(
        PROPERTIES | {"EndpointName": name, "InstanceTypes": [f"ml.t.x{i}" for i in range(count)]}
    )
    names = [pool.configuration_name(i) for i in range(count)]
    assert max(map(len, names)) <= 63
    assert [pool.index_of(n) for n in names] == list(range(count))
    assert pool.index_of(f"{names[0]}0") is None or count > 1


def event(request_type: str, **more: Any) -> dict[str, Any]:
    common = {"RequestType": request_type, "RequestId": "r", "StackId": "s", "ResourceProperties": PROPERTIES}
    return common | more


def test_on_event_answers_the_endpoints_name_and_nothing_else() -> None:
    assert handler.on_event(event("Create"), None) == {"PhysicalResourceId": "semif-dev-decisions"}
    renamed = event("Update", PhysicalResourceId="semif-dev-old")
    assert handler.on_event(renamed, None) == {"PhysicalResourceId": "semif-dev-decisions"}
    assert handler.on_event(event("Delete", PhysicalResourceId="semif-dev-old"), None) == {
        "PhysicalResourceId": "semif-dev-old"
    }


def test_a_deletion_goes_by_the_physical_id_whatever_the_properties() -> None:
    operation = parse_operation(
        event("Delete", PhysicalResourceId="semif-dev-old", ResourceProperties={"Bad": "1"})
    )
    assert operation.endpoint_name == "semif-dev-old"
    assert operation.pool is None


def test_an_unknown_request_is_an_error() -> None:
    with pytest.raises(PropertyError, match="RequestType"):
        parse_operation(event("Replace"))


def test_a_configurations_name_begins_with_48_characters_of_the_endpoints() -> None:
    assert configuration_prefix("e" * 63) == "e" * 48 + "-"
