"""What DescribeEndpoint says about a state."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from localaws.sagemaker.lifecycle import EndpointState, Status
from localaws.sagemaker.models import ServingVariant


def described(state: EndpointState, deployment_config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return DescribeEndpoint's answer for a state."""
    answer: dict[str, Any] = {
        "EndpointName": state.name,
        "EndpointArn": state.arn,
        "EndpointConfigName": state.config_name,
        "EndpointStatus": state.status.value,
        "CreationTime": state.created_at,
        "LastModifiedTime": state.modified_at,
    }
    if state.serving:
        answer["ProductionVariants"] = [_describe_variant(variant) for variant in state.serving]
    if state.failure_reason:
        answer["FailureReason"] = state.failure_reason
    if state.status in {Status.CREATING, Status.UPDATING} and not state.scaling:
        answer["PendingDeploymentSummary"] = {
            "EndpointConfigName": state.target_config,
            "StartTime": state.modified_at,
        }
    if deployment_config:
        answer["LastDeploymentConfig"] = copy.deepcopy(dict(deployment_config))
    return answer


def _describe_variant(variant: ServingVariant) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "VariantName": variant.name,
        "DeployedImages": [
            {
                "SpecifiedImage": variant.image,
                "ResolvedImage": variant.resolved_image,
                "ResolutionTime": variant.resolved_at,
            }
        ],
        "CurrentWeight": variant.weight,
        "DesiredWeight": variant.weight,
        "CurrentInstanceCount": variant.instance_count,
        "DesiredInstanceCount": variant.instance_count
        if variant.desired_count is None
        else variant.desired_count,
    }
    if variant.native_pool:
        answer["InstancePools"] = [
            {"InstanceType": name, "CurrentInstanceCount": count} for name, count in variant.instances
        ]
    return answer
