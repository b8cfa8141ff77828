"""PooledEndpoint: a model behind an endpoint that runs on the first instance type of a pool to be had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.instance_pool_provider import InstancePoolProvider

VARIANT_NAME: Final = "AllTraffic"
RESOURCE_TYPE: Final = "Custom::InstancePoolEndpoint"


@dataclass(frozen=True)
class Container:
    """What runs: an image, its environment, and the archive that becomes /opt/ml/model.

    Each URI is a literal or the token of a BuildRun, for which the model then waits. `model_uri` is a prefix,
    or the key of a model.tar.gz if `packed_model`.
    """

    image_uri: str
    model_uri: str
    packed_model: bool
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Fleet:
    """Where it runs: instance types, best first, and how long they may take to come up."""

    instance_types: Sequence[str]
    instance_count: int
    inference_ami_version: str | None
    download_timeout_s: int
    startup_timeout_s: int


class PooledEndpoint(Construct):
    """An endpoint; `arn`, `instance_type` and `attempts` are known once it serves."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        container: Container,
        fleet: Fleet,
        execution_role: iam.Role,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.endpoint_name = endpoint_name
        model = self._model(container, execution_role)
        # CreateModel looks for the image with this role, so the role's policy must be there before.
        model.node.add_dependency(execution_role)
        properties: dict[str, object] = {
            "EndpointName": endpoint_name,
            "ModelName": model.attr_model_name,
            "VariantName": VARIANT_NAME,
            "InstanceTypes": list(fleet.instance_types),
            "InitialInstanceCount": str(fleet.instance_count),
            "ModelDataDownloadTimeoutInSeconds": str(fleet.download_timeout_s),
            "ContainerStartupHealthCheckTimeoutInSeconds": str(fleet.startup_timeout_s),
            "Tags": dict(tags),
        }
        if fleet.inference_ami_version is not None:
            properties["InferenceAmiVersion"] = fleet.inference_ami_version
        provider = InstancePoolProvider(self, "InstancePool", endpoint_name=endpoint_name)
        endpoint = cdk.CustomResource(
            self,
            "Endpoint",
            service_token=provider.service_token,
            resource_type=RESOURCE_TYPE,
            properties=properties,
        )
        # Role and policy outlive the endpoint, which needs them until it is gone.
        endpoint.node.add_dependency(execution_role, provider)
        self.arn = endpoint.get_att_string("EndpointArn")
        self.instance_type = endpoint.get_att_string("InstanceType")
        self.attempts = endpoint.get_att_string("Attempts")

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let `grantee` invoke this endpoint and no other."""
        arn = cdk.Stack.of(self).format_arn(
            service="sagemaker", resource="endpoint", resource_name=self.endpoint_name
        )
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["sagemaker:InvokeEndpoint"], resource_arns=[arn]
        )

    def _model(self, container: Container, execution_role: iam.Role) -> sagemaker.CfnModel:
        source = sagemaker.CfnModel.S3DataSourceProperty(
            compression_type="Gzip" if container.packed_model else "None",
            s3_data_type="S3Object" if container.packed_model else "S3Prefix",
            s3_uri=container.model_uri,
        )
        return sagemaker.CfnModel(
            self,
            "Model",
            enable_network_isolation=True,
            execution_role_arn=execution_role.role_arn,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                environment=dict(container.environment),
                image=container.image_uri,
                model_data_source=sagemaker.CfnModel.ModelDataSourceProperty(s3_data_source=source),
            ),
        )
