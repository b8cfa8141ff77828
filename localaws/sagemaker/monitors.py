"""What SageMaker reads of CloudWatch and Application Auto Scaling, which are moto's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.cloudwatch.models import cloudwatch_backends

from localaws.protocol import Scope

_DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def in_alarm(scope: Scope, names: Iterable[str]) -> list[str]:
    """Return those of the named alarms that are in the state ALARM."""
    backend: Any = cloudwatch_backends[scope.account][scope.region]
    return [name for name in names if name in backend.alarms and backend.alarms[name].state_value == "ALARM"]


def is_scaled(scope: Scope, endpoint: str, variant: str) -> bool:
    """Say whether a variant is registered as a scalable target."""
    backend: Any = applicationautoscaling_backends[scope.account][scope.region]
    return f"endpoint/{endpoint}/variant/{variant}" in backend.targets.get(_DIMENSION, {})
