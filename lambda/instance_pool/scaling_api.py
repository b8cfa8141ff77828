"""Application Auto Scaling, as far as an update of a scaled variant needs it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from instance_pool.aws_call import ApiError, call, connect
from instance_pool.failures import Cause
from instance_pool.scaling import DIMENSION, NAMESPACE, Scaling, resource_id, scaling

_UNDER_WAY: Final = frozenset({"Pending", "InProgress"})

Log = Callable[[Mapping[str, object]], None]


class ScalingApi:
    """Calls on one client. Errors leave as ApiError."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    def connect(cls) -> "ScalingApi":
        """Connect as the SDK's environment says."""
        return cls(connect("application-autoscaling"))

    def read(self, endpoint_name: str, variant_name: str, log: Log) -> Scaling | None:
        """The variant's registration; None if it has none, or (logged) if that may not be read."""
        variant = _variant(endpoint_name, variant_name)
        try:
            targets = self._pages(
                "describe_scalable_targets",
                "ScalableTargets",
                ServiceNamespace=NAMESPACE,
                ResourceIds=[variant["ResourceId"]],
                ScalableDimension=DIMENSION,
            )
            if not targets:
                return None
            policies = self._pages("describe_scaling_policies", "ScalingPolicies", **variant)
            actions = self._pages("describe_scheduled_actions", "ScheduledActions", **variant)
        except ApiError as error:
            if error.cause is not Cause.ACCESS_DENIED:
                raise
            # SageMaker itself refuses an update that a registration forbids.
            log({"step": "ScalingNotRead", "reason": str(error)})
            return None
        return scaling(targets[0], policies, actions)

    def deregister(self, endpoint_name: str, variant_name: str) -> None:
        """Take the registration away, policies and scheduled actions with it; one that is gone is fine."""
        try:
            call(self._client, "deregister_scalable_target", **_variant(endpoint_name, variant_name))
        except ApiError as error:
            if error.code != "ObjectNotFoundException" and "no scalable target" not in error.message.lower():
                raise

    def restore(self, endpoint_name: str, variant_name: str, recorded: Scaling, log: Log) -> None:
        """Make what is missing of a recorded registration; what somebody made since stays as it is."""
        variant = _variant(endpoint_name, variant_name)
        present = self.read(endpoint_name, variant_name, log)
        if present is None:
            call(self._client, "register_scalable_target", **variant, **recorded.target)
        policies = _names(present.policies if present else (), "PolicyName")
        actions = _names(present.scheduled_actions if present else (), "ScheduledActionName")
        for policy in recorded.policies:
            if policy["PolicyName"] not in policies:
                call(self._client, "put_scaling_policy", **variant, **policy)
        for action in recorded.scheduled_actions:
            if action["ScheduledActionName"] not in actions:
                call(self._client, "put_scheduled_action", **variant, **action)

    def activity_under_way(self, endpoint_name: str, variant_name: str) -> bool:
        """Whether the variant is being scaled now. The newest activities come first."""
        page = call(
            self._client,
            "describe_scaling_activities",
            **_variant(endpoint_name, variant_name),
            MaxResults=10,
        )
        return any(activity["StatusCode"] in _UNDER_WAY for activity in page["ScalingActivities"])

    def _pages(self, operation: str, member: str, **parameters: object) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            page = call(self._client, operation, **parameters, **token)
            found += page[member]
            if not page.get("NextToken"):
                return found
            token = {"NextToken": page["NextToken"]}


def _variant(endpoint_name: str, variant_name: str) -> dict[str, str]:
    return {
        "ServiceNamespace": NAMESPACE,
        "ResourceId": resource_id(endpoint_name, variant_name),
        "ScalableDimension": DIMENSION,
    }


def _names(items: tuple[Mapping[str, Any], ...], name: str) -> set[str]:
    return {str(item[name]) for item in items}
