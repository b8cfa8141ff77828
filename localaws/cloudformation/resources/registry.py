"""Which resource types there are."""

from __future__ import annotations

from collections.abc import Mapping

from localaws.cloudformation.resources import (
    cloudwatch,
    codebuild,
    ecr,
    functions,
    iam,
    kms,
    logs,
    nothing,
    s3,
    sagemaker,
    ssm,
    step_functions,
)
from localaws.cloudformation.resources.base import ResourceType

_TYPES: tuple[type[ResourceType], ...] = (
    cloudwatch.Alarm,
    cloudwatch.Dashboard,
    codebuild.Project,
    ecr.Repository,
    functions.EventInvokeConfig,
    functions.Function,
    functions.Permission,
    iam.ManagedPolicy,
    iam.Policy,
    iam.Role,
    kms.Alias,
    kms.Key,
    logs.LogGroup,
    nothing.CdkMetadata,
    nothing.WaitConditionHandle,
    s3.Bucket,
    s3.BucketPolicy,
    sagemaker.Model,
    ssm.Parameter,
    step_functions.StateMachine,
)

#: Resource types by name; custom resources are added by the backend.
RESOURCE_TYPES: Mapping[str, ResourceType] = {kind.type_name: kind() for kind in _TYPES}
