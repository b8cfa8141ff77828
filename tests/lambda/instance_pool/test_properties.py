"""What CloudFormation sends, as strings, and what is made of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instance_pool import handler
from instance_pool.pool import Pool, Round, UpdateMode, configuration_prefix
from instance_pool.properties import PropertyError, parse_operation, parse_pool

PROPERTIES: dict[str, Any] = {
    "ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:f",
    "EndpointName": "semif-dev-decisions",
    "ModelName": "Model-abc",
    "VariantName": "AllTraffic",
    "Strategy": "native",
    "VariantInstanceProvisionTimeoutInSeconds": "1200",
    "Round1": {"Type1": "ml.g6e.xlarge", "Type2": "ml.g6.2xlarge", "InferenceAmiVersion": "gpu-4-1"},
    "Round2": {"Type1": "ml.m5.2xlarge", "KmsKeyId": "arn:aws:kms:eu-central-1:1:key/k"},
    "LastResort": {"Type1": "ml.c6i.2xlarge", "ModelName": "Small", "InitialInstanceCount": "1"},
    "LeftOut": {"ml.p5.48xlarge": "its price is over max_hourly_usd"},
    "Update": {"Type": "canary", "CanaryPercent": "20", "WaitIntervalInSeconds": "300"},
    "RollbackAlarm1": "errors",
    "RollbackAlarm2": "latency",
    "InitialInstanceCount": "2",
    "ModelDataDownloadTimeoutInSeconds": "900",
    "ContainerStartupHealthCheckTimeoutInSeconds": "600",
    "Tags": {"team": "x", "env": "dev"},
}


SERIAL = {
    key: value
    for key, value in PROPERTIES.items()
    if key not in {"Round2", "VariantInstanceProvisionTimeoutInSeconds"}
} | {"Strategy": "serial", "Round1": {"Type1": "ml.g6e.xlarge"}}


def test_properties_parse() -> None:
    assert parse_pool(PROPERTIES) == Pool(
        endpoint_name="semif-dev-decisions",
        variant_name="AllTraffic",
        rounds=(
            Round(("ml.g6e.xlarge", "ml.g6.2xlarge"), "Model-abc", 2, "gpu-4-1"),
            Round(("ml.m5.2xlarge",), "Model-abc", 2, None, "arn:aws:kms:eu-central-1:1:key/k"),
            Round(("ml.c6i.2xlarge",), "Small", 1, last_resort=True),
        ),
        native=True,
        provision_timeout_s=1200,
        download_timeout_s=900,
        startup_timeout_s=600,
        left_out=(("ml.p5.48xlarge", "its price is over max_hourly_usd"),),
        update=UpdateMode("canary", canary_percent=20, wait_s=300),
        rollback_alarms=("errors", "latency"),
        tags=(("env", "dev"), ("team", "x")),
    )


def test_a_serial_last_resort_is_tried_type_by_type() -> None:
    last = {
        "Type1": "ml.c6i.2xlarge",
        "Type2": "ml.c5.2xlarge",
        "ModelName": "S",
        "InitialInstanceCount": "1",
    }
    pool = parse_pool(SERIAL | {"LastResort": last})
    assert [(one.types, one.last_resort) for one in pool.rounds] == [
        (("ml.g6e.xlarge",), False),
        (("ml.c6i.2xlarge",), True),
        (("ml.c5.2xlarge",), True),
    ]
    assert pool.provision_timeout_s is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"EndpointName": ""}, "EndpointName"),
        ({"EndpointName": "a" * 64}, "EndpointName"),
        ({"ModelName": None}, "ModelName"),
        ({"Strategy": "both"}, "Strategy"),
        ({"VariantInstanceProvisionTimeoutInSeconds": "299"}, "VariantInstanceProvisionTimeoutInSeconds"),
        ({"Round1": {}}, "Round1.Type1"),
        ({"Round1": {"Type1": "ml.a.b", "Type2": "ml.a.b"}}, "Round1"),
        ({"Round1": {"Type1": "ml.a.b", "Type3": "ml.a.c"}}, "Round1.Type2"),
        ({"Round1": {"Type1": "ml.a.b", "Price": "1"}}, "Round1.Price"),
        ({"Round1": {f"Type{n}": f"ml.a.b{n}" for n in range(1, 7)}}, "Round1"),
        ({"Round4": {"Type1": "ml.a.b"}}, "Round3"),
        ({"Strategy": "serial"}, "Round1"),
        ({"LastResort": {"Type1": "ml.a.b", "InitialInstanceCount": "1"}}, "ModelName"),
        ({"LeftOut": ["ml.a.b"]}, "LeftOut"),
        ({"Update": "canary"}, "Update"),
        ({"Update": {"Type": "linear"}}, "Update.Type"),
        ({"Update": {"Type": "canary", "CanaryPercent": "0"}}, "CanaryPercent"),
        ({"RollbackAlarm2": "x", "RollbackAlarm1": ""}, "RollbackAlarm1"),
        ({"RollbackAlarm4": "x"}, "RollbackAlarm3"),
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


OPTIONAL = {"ServiceToken", "Tags", "LastResort", "LeftOut", "Update", "RollbackAlarm2", "Round2"}


@pytest.mark.parametrize("name", sorted(set(PROPERTIES) - OPTIONAL))
def test_what_must_be_there(name: str) -> None:
    with pytest.raises(PropertyError, match=name):
        parse_pool({key: value for key, value in PROPERTIES.items() if key != name})


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"ModelName": "Model-other"}, False),
        (
            {
                "Round1": {
                    "Type1": "ml.g6.2xlarge",
                    "Type2": "ml.g6e.xlarge",
                    "InferenceAmiVersion": "gpu-4-1",
                }
            },
            False,
        ),
        ({"VariantInstanceProvisionTimeoutInSeconds": "600"}, False),
        ({"LastResort": PROPERTIES["LastResort"] | {"ModelName": "Other"}}, False),
        ({"LeftOut": {}}, True),
        ({"Update": {"Type": "recreate"}}, True),
        ({"RollbackAlarm3": "use"}, True),
        ({"InitialInstanceCount": "3"}, False),
        ({"Round2": {"Type1": "ml.m5.2xlarge"}}, False),
        ({"EndpointName": "semif-dev-decisionz"}, False),
        ({"Tags": {"team": "y"}}, True),
        ({"ServiceToken": "arn:other"}, True),
    ],
)
def test_the_digest_tells_fleets_apart(change: dict[str, Any], *, same: bool) -> None:
    assert (parse_pool(PROPERTIES).digest == parse_pool(PROPERTIES | change).digest) is same


@given(
    st.from_regex(r"[a-zA-Z0-9](-{0,2}[a-zA-Z0-9]){0,20}", fullmatch=True),
    st.integers(1, 12),
    st.integers(0, 9),
)
def test_configuration_names_fit_and_read_back(name: str, count: int, again: int) -> None:
    rounds = {f"Round{i}": {"Type1": f"ml.t.x{i}"} for i in range(1, count + 1)}
    pool = parse_pool(SERIAL | {"EndpointName": name} | rounds)
    names = [pool.round_name(i) for i in range(count)]
    others = [pool.attempt_name(i, pool.rounds[i].types, "r", again) for i in range(count)]
    assert max(map(len, names + others)) <= 63
    assert all(other.startswith(configuration_prefix(name)) for other in names + others)
    assert [pool.index_of(n) for n in names] == [pool.index_of(n) for n in others] == list(range(count))
    assert pool.index_of(f"{names[0]}00") is None
    assert pool.index_of(pool.round_name(len(pool.rounds))) is None


def event(request_type: str, **more: Any) -> dict[str, Any]:
    common = {"RequestType": request_type, "RequestId": "r", "StackId": "s", "ResourceProperties": PROPERTIES}
    return common | more


def test_on_event_answers_the_endpoints_name_and_when_it_began() -> None:
    began = datetime.now(UTC)
    answer = handler.on_event(event("Create"), None)
    assert answer["PhysicalResourceId"] == "semif-dev-decisions"
    assert parse_operation(event("Create") | answer).started_at is not None
    told = parse_operation(event("Create") | answer).started_at or began
    assert began <= told <= datetime.now(UTC)
    renamed = event("Update", PhysicalResourceId="semif-dev-old")
    assert handler.on_event(renamed, None)["PhysicalResourceId"] == "semif-dev-decisions"
    deleted = handler.on_event(event("Delete", PhysicalResourceId="semif-dev-old"), None)
    assert deleted["PhysicalResourceId"] == "semif-dev-old"


@pytest.mark.parametrize("data", [None, {}, {"StartedAt": "today"}, {"StartedAt": 5}])
def test_without_a_beginning_there_is_none(data: object) -> None:
    assert parse_operation(event("Create", Data=data)).started_at is None


def test_the_tags_before_an_update_are_known() -> None:
    operation = parse_operation(event("Update", OldResourceProperties={"Tags": {"team": "x", "cost": "1"}}))
    assert operation.old_tags == {"team", "cost"}


def test_a_climb_wants_the_pool_that_it_brings() -> None:
    properties = {key: value for key, value in PROPERTIES.items() if key != "ServiceToken"}
    operation = parse_operation(event("Climb", ResourceProperties=properties))
    assert operation.pool == parse_pool(PROPERTIES)


def test_a_deletion_goes_by_the_physical_id_whatever_the_properties() -> None:
    operation = parse_operation(
        event("Delete", PhysicalResourceId="semif-dev-old", ResourceProperties={"Bad": "1"})
    )
    assert operation.endpoint_name == "semif-dev-old"
    assert operation.pool is None


def test_an_unknown_request_is_an_error() -> None:
    with pytest.raises(PropertyError, match="RequestType"):
        parse_operation(event("Replace"))


def test_a_configurations_name_begins_with_40_characters_of_the_endpoints() -> None:
    assert parse_pool(PROPERTIES | {"EndpointName": "e" * 63}).round_name(0).startswith("e" * 40 + "-")


@pytest.mark.parametrize(
    ("update", "instance_count", "batches", "waits_s"),
    [
        (UpdateMode("all-at-once", wait_s=60, termination_wait_s=30), 4, 1, 90),
        (UpdateMode("canary", wait_s=60, termination_wait_s=30), 4, 1, 90),
        (UpdateMode("rolling", batch_percent=30, wait_s=60), 10, 4, 240),
        (UpdateMode("rolling", batch_percent=30, wait_s=60), 2, 2, 120),
        (UpdateMode("recreate", wait_s=60, termination_wait_s=30), 4, 1, 0),
    ],
)
def test_how_long_an_update_takes(
    update: UpdateMode, instance_count: int, batches: int, waits_s: int
) -> None:
    assert (update.batches(instance_count), update.waits_s(instance_count)) == (batches, waits_s)
