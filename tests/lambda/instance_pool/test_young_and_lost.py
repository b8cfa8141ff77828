"""What SageMaker and IAM do not show yet or no longer, and what belongs to neighbours."""

from types import ModuleType
from typing import Any

import pytest

from instance_pool.answers import InstancePoolError


@pytest.mark.parametrize("operation", ["describe_endpoint", "create_endpoint_config", "create_endpoint"])
def test_a_policy_may_be_too_young_to_be_in_force(
    fake: ModuleType, resource: Any, clock: Any, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    allowed = getattr(resource.sagemaker, operation)

    def deny_at_first(**parameters: object) -> object:
        if clock.now_s < 20:
            raise fake.refusal("AccessDeniedException", "User is not authorized")
        return allowed(**parameters)

    monkeypatch.setattr(resource.sagemaker, operation, deny_at_first, raising=False)
    assert resource.until_complete()["InstanceType"] == "ml.g6e.xlarge"
    assert clock.now_s == 20


def test_denied_access_is_final_and_says_so(
    fake: ModuleType, resource: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(**_: object) -> None:
        raise fake.refusal(
            "AccessDeniedException", "User is not authorized to perform sagemaker:DescribeEndpoint"
        )

    monkeypatch.setattr(resource.sagemaker, "describe_endpoint", deny, raising=False)
    with pytest.raises(InstancePoolError, match=r"^access_denied: .*DescribeEndpoint.* Next: "):
        resource.poll()
    assert 20 <= clock.now_s < 30


@pytest.mark.parametrize("text", ["Could not find endpoint configuration", "Could not assume role arn:r"])
def test_what_is_not_known_yet_is_tried_again_for_two_minutes(
    fake: ModuleType, resource: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def refuse(**_: object) -> None:
        raise fake.refusal("ValidationException", text)

    monkeypatch.setattr(resource.sagemaker, "create_endpoint", refuse, raising=False)
    for _ in range(8):
        assert resource.poll() == {"IsComplete": False}
        resource.sagemaker.advance(15)
    with pytest.raises(InstancePoolError, match=text):
        resource.poll()


def test_a_configuration_that_vanishes_between_two_calls_decides_nothing(
    fake: ModuleType, resource: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(**_: object) -> None:
        raise fake.refusal("ValidationException", "Could not find resource")

    with monkeypatch.context() as patch:
        patch.setattr(resource.sagemaker, "add_tags", vanished, raising=False)
        assert resource.poll() == {"IsComplete": False}
    assert resource.until_complete()["InstanceType"] == "ml.g6e.xlarge"


@pytest.mark.parametrize("pattern", ["a-{}-0123456789-0", "{}-chat-0123456789-0"])
def test_a_neighbours_configurations_of_the_same_stack_stay(
    fake: ModuleType, resource: Any, pattern: str
) -> None:
    neighbour = pattern.format(resource.name)
    tags = {"semif:stack-id": resource.stack_id, "semif:endpoint": neighbour.removesuffix("-0123456789-0")}
    resource.sagemaker.create_endpoint_config(
        EndpointConfigName=neighbour,
        ProductionVariants=[{"VariantName": "v", "InstanceType": "ml.m5.large"}],
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    resource.until_complete()
    resource.until_complete("Delete")
    assert set(resource.sagemaker.configurations) == {neighbour}


def test_an_endpoint_that_fails_after_it_served_is_a_failure(fake: ModuleType, resource: Any) -> None:
    resource.until_complete()
    resource.sagemaker.endpoints[resource.name] |= {"status": "Failed", "reason": fake.HEALTH}
    with pytest.raises(InstancePoolError, match=r"^health_check_failed: ml\.g6e\.xlarge: "):
        resource.poll()
