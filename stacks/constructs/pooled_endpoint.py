"""PooledEndpoint: a model behind an endpoint that runs on the first instance types of a pool to be had."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.endpoint_alarms import EndpointAlarms
from stacks.constructs.instance_pool_provider import InstancePoolProvider
from stacks.constructs.pool_properties import VARIANT_NAME, check_size, pool_properties
from stacks.container_variables import check_variables
from stacks.endpoint_settings import EndpointSettings
from stacks.notes import Note, annotate

RESOURCE_TYPE: Final = "Custom::InstancePoolEndpoint"


@dataclass(frozen=True)
class ModelArchive:
    """What becomes /opt/ml/model: a prefix, or the key of a model.tar.gz if `packed`."""

    uri: str
    packed: bool


@dataclass(frozen=True)
class Container:
    """What runs: an image, its environment, and its archive, if it does not fetch the model itself.

    Each URI is a literal or the token of a BuildRun, for which the model then waits.
    """

    image_uri: str
    archive: ModelArchive | None
    environment: Mapping[str, str]


class PooledEndpoint(Construct):
    """An endpoint, with its models, its alarms, and the function that walks its pool.

    `outputs` are values by name, most of which are known once it serves. `last_resort` is there if
    `settings.last_resort` is.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment_name: str,
        settings: EndpointSettings,
        container: Container,
        last_resort: Container | None,
        execution_role: iam.Role,
        tags: Mapping[str, str],
        enable_network_isolation: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        self.endpoint_name = settings.name
        self._isolated = enable_network_isolation
        model = self._model("Model", container, execution_role, settings.path)
        fallback = (
            self._model("LastResortModel", last_resort, execution_role, f"{settings.path}.last_resort")
            if last_resort is not None
            else None
        )
        alarms = EndpointAlarms(
            self,
            "Alarms",
            name_prefix=f"semif-{environment_name}-{settings.key}",
            endpoint_name=settings.name,
            variant_name=VARIANT_NAME,
            degrades=fallback is not None,
        )
        properties = pool_properties(
            settings,
            model_name=model.attr_model_name,
            last_resort_model_name=None if fallback is None else fallback.attr_model_name,
            own_alarms=[alarms.errors_name],
            tags=tags,
        )
        check_size(properties, f"{settings.path}.pool")
        provider = InstancePoolProvider(
            self, "InstancePool", endpoint_name=settings.name, volume_key=settings.pool.volume_key
        )
        endpoint = cdk.CustomResource(
            self,
            "Endpoint",
            service_token=provider.service_token,
            resource_type=RESOURCE_TYPE,
            properties=properties,
        )
        # Role and policy outlive the endpoint, which needs them until it is gone.
        endpoint.node.add_dependency(execution_role, provider, alarms)
        self._publish_pool(environment_name, settings.key, properties, provider, endpoint)
        annotate(self, (*settings.notes, *_downtime(settings), *self._exposure(settings)))
        self.arn = endpoint.get_att_string("EndpointArn")
        self.outputs: Mapping[str, str] = {
            "EndpointName": settings.name,
            "EndpointArn": self.arn,
            "InstanceType": endpoint.get_att_string("InstanceType"),
            "Round": endpoint.get_att_string("Round"),
            "Attempts": endpoint.get_att_string("Attempts"),
            "Degraded": endpoint.get_att_string("Degraded"),
            "LogGroup": f"/aws/sagemaker/Endpoints/{settings.name}",
        }

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let `grantee` invoke this endpoint and no other."""
        arn = cdk.Stack.of(self).format_arn(
            service="sagemaker", resource="endpoint", resource_name=self.endpoint_name
        )
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["sagemaker:InvokeEndpoint"], resource_arns=[arn]
        )

    def _model(
        self, construct_id: str, container: Container, execution_role: iam.Role, path: str
    ) -> sagemaker.CfnModel:
        check_variables(container.environment, path)
        model = sagemaker.CfnModel(
            self,
            construct_id,
            enable_network_isolation=self._isolated,
            execution_role_arn=execution_role.role_arn,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                environment=dict(container.environment),
                image=container.image_uri,
                model_data_source=_data_source(container.archive),
            ),
        )
        # CreateModel looks for the image with this role, so the role's policy must be there before.
        model.node.add_dependency(execution_role)
        return model

    def _publish_pool(
        self,
        environment_name: str,
        key: str,
        properties: Mapping[str, object],
        provider: InstancePoolProvider,
        endpoint: cdk.CustomResource,
    ) -> None:
        """Tell `semif climb` what was deployed; a failed deployment leaves what was there before."""
        values = {
            "pool": cdk.Stack.of(self).to_json_string(dict(properties)),
            "pool-function": provider.is_complete.function_name,
        }
        for name, value in values.items():
            parameter = ssm.StringParameter(
                self,
                f"{name.title().replace('-', '')}Parameter",
                parameter_name=f"/semif/{environment_name}/{key}/{name}",
                string_value=value,
            )
            parameter.node.add_dependency(endpoint)

    def _exposure(self, settings: EndpointSettings) -> tuple[Note, ...]:
        if self._isolated:
            return ()
        return (
            Note(
                "network-isolation",
                "warning",
                f"{settings.path}: the container of {settings.name} runs WITHOUT network isolation: it can"
                " reach the internet, and whatever it runs can send data there.",
            ),
        )


def _downtime(settings: EndpointSettings) -> tuple[Note, ...]:
    if settings.update.type != "recreate":
        return ()
    minutes = -(-settings.walk_times.worst_case_s // 60)
    return (
        Note(
            "recreate-downtime",
            "warning",
            f"{settings.path}.update: recreate deletes {settings.name} before its successor exists: each"
            f" change of the fleet is a downtime of some minutes, up to {minutes}; if the new one fails,"
            " there is no endpoint until the rollback has made the old one again.",
        ),
    )


def _data_source(archive: ModelArchive | None) -> sagemaker.CfnModel.ModelDataSourceProperty | None:
    if archive is None:
        return None
    return sagemaker.CfnModel.ModelDataSourceProperty(
        s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
            compression_type="Gzip" if archive.packed else "None",
            s3_data_type="S3Object" if archive.packed else "S3Prefix",
            s3_uri=archive.uri,
        )
    )
