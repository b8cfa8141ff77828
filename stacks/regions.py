"""What differs from region to region, apart from containers and prices."""

from typing import Final, Literal

PoolStrategy = Literal["native", "serial"]
POOL_STRATEGIES: Final[tuple[PoolStrategy, ...]] = ("native", "serial")

INSTANCE_POOL_REGIONS: Final = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ap-southeast-3",
        "ca-central-1",
        "eu-central-1",
        "eu-central-2",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-2",
    }
)
"""Where SageMaker has instance pools (ProductionVariant.InstancePools), as of 2026-11."""
