"""The services that a poll speaks to, and where it tells what it does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from instance_pool.climb_api import ClimbApi
from instance_pool.limits_api import LimitsApi
from instance_pool.sagemaker_api import SageMakerApi
from instance_pool.scaling_api import ScalingApi

Log = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True)
class Apis:
    """One client for each service."""

    sagemaker: SageMakerApi
    limits: LimitsApi
    scaling: ScalingApi
    climb: ClimbApi

    @classmethod
    def connect(cls) -> "Apis":
        """Connect as the SDK's environment says."""
        return cls(SageMakerApi.connect(), LimitsApi.connect(), ScalingApi.connect(), ClimbApi.connect())
