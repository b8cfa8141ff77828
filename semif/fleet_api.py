"""Counts the instances of SageMaker's endpoints by type, as their quotas do."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from semif.aws import ClientError, describe


def fleet_in_use(sagemaker: Any) -> dict[str, int]:
    """Instances of all endpoints of the account and region. Raises what boto3 raises."""
    pages = sagemaker.get_paginator("list_endpoints").paginate()
    used: Counter[str] = Counter()
    for summary in (endpoint for page in pages for endpoint in page["Endpoints"]):
        try:
            found = sagemaker.describe_endpoint(EndpointName=summary["EndpointName"])
            used.update(fleet_of_endpoint(sagemaker, found))
        except ClientError as error:
            # It may be deleted between the list and this call.
            if "could not find" not in describe(error)[1].lower():
                raise
    return dict(used)


def fleet_of_endpoint(sagemaker: Any, endpoint: Mapping[str, Any]) -> dict[str, int]:
    """Instances by type of one endpoint, as DescribeEndpoint shows it. Raises what boto3 raises."""
    used: Counter[str] = Counter()
    plain: dict[str, int] = {}
    for variant in endpoint.get("ProductionVariants", []):
        pools = variant.get("InstancePools")
        for pool in pools or ():
            used[pool["InstanceType"]] += pool.get("CurrentInstanceCount", 0)
        if not pools:
            # An endpoint that is being made says how many it wants before it has any.
            count = variant.get("CurrentInstanceCount") or variant.get("DesiredInstanceCount") or 0
            plain[variant["VariantName"]] = count
    if plain:
        configuration = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
        for variant in configuration["ProductionVariants"]:
            if "InstanceType" in variant:
                used[variant["InstanceType"]] += plain.get(variant["VariantName"], 0)
    return dict(used)
