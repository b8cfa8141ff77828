"""Models and endpoint configurations of one account and region."""

from __future__ import annotations

import copy
import functools
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import botocore.session

from localaws.clients import Clients
from localaws.protocol import Scope, ServiceError
from localaws.registry.references import parse_ecr
from localaws.registry.registry import Registry, UnsupportedManifestError
from localaws.sagemaker import listing, messages, model_data
from localaws.sagemaker.faults import Fault, FaultMode
from localaws.sagemaker.models import EndpointConfig, Model, arn, container_of, data_of, variant_of
from localaws.sagemaker.quotas import Quotas
from localaws.sagemaker.tags import TagStore, check_tags

Params = Mapping[str, Any]

_ENVIRONMENT_BYTES = 32 * 1024
_NVME_FAMILIES = re.compile(r"g4dn|g5|g6|g6e|gr6|p4de|p5|p5en?|[a-z]+\d[a-z]?d|trn1n?")
_NOT_HOSTED = ("AsyncInferenceConfig", "DataCaptureConfig", "ExplainerConfig", "ShadowProductionVariants")
_NOT_HOSTED_VARIANTS = ("ServerlessConfig", "ManagedInstanceScaling")


class Catalog:
    """The two kinds of resources that only describe. Names match without regard to case, as in SageMaker."""

    def __init__(
        self, scope: Scope, clients: Clients, tags: TagStore, quotas: Quotas, lock: threading.RLock
    ) -> None:
        self._scope = scope
        self._quotas = quotas
        self._clients = clients
        self._registry = Registry(clients)
        self._tags = tags
        self._lock = lock
        self._models: dict[str, Model] = {}
        self._configs: dict[str, EndpointConfig] = {}

    def create_model(self, params: Params) -> dict[str, Any]:
        """CreateModel: one container, an image and model data of this region."""
        model = self._read_model(copy.deepcopy(dict(params)))
        tags = check_tags(params.get("Tags") or [])
        with self._lock:
            if model.name.lower() in self._models:
                raise invalid(messages.already_exists("model", model.arn))
            self._models[model.name.lower()] = model
            self._tags.attach(model.arn, tags)
        return {"ModelArn": model.arn}

    def describe_model(self, params: Params) -> dict[str, Any]:
        """DescribeModel."""
        with self._lock:
            model = self.model(params["ModelName"])
        described = {key: value for key, value in model.request.items() if key != "Tags"}
        described.setdefault("EnableNetworkIsolation", False)
        return copy.deepcopy(described) | {"ModelArn": model.arn, "CreationTime": model.created_at}

    def delete_model(self, params: Params) -> dict[str, Any]:
        """DeleteModel; endpoints that run on it are not touched."""
        with self._lock:
            model = self.model(params["ModelName"])
            del self._models[model.name.lower()]
            self._tags.detach(model.arn)
        return {}

    def list_models(self, params: Params) -> dict[str, Any]:
        """ListModels."""
        with self._lock:
            summaries = [
                {"ModelName": model.name, "ModelArn": model.arn, "CreationTime": model.created_at}
                for model in self._models.values()
            ]
        return listing.result("Models", *listing.page(summaries, params, "ModelName"))

    def create_endpoint_config(self, params: Params, faults: Mapping[str, Fault]) -> dict[str, Any]:
        """CreateEndpointConfig: instance types that exist, models that exist."""
        request = copy.deepcopy(dict(params))
        tags = check_tags(params.get("Tags") or [])
        name = request["EndpointConfigName"]
        config_arn = arn(self._scope.account, self._scope.region, "endpoint-config", name)
        self._check_config(request, faults)
        variants = tuple(variant_of(variant) for variant in request["ProductionVariants"])
        config = EndpointConfig(name, config_arn, datetime.now(UTC), request, variants)
        with self._lock:
            if name.lower() in self._configs:
                raise invalid(messages.already_exists("endpoint configuration", config_arn))
            for variant in variants:
                for entry in variant.pool:
                    self.model(entry.model_name)
            self._configs[name.lower()] = config
            self._tags.attach(config_arn, tags)
        return {"EndpointConfigArn": config_arn}

    def describe_endpoint_config(self, params: Params) -> dict[str, Any]:
        """DescribeEndpointConfig."""
        with self._lock:
            config = self.config(params["EndpointConfigName"])
        described = {key: value for key, value in config.request.items() if key != "Tags"}
        return copy.deepcopy(described) | {
            "EndpointConfigArn": config.arn,
            "CreationTime": config.created_at,
        }

    def delete_endpoint_config(self, params: Params) -> dict[str, Any]:
        """DeleteEndpointConfig; SageMaker allows it while the configuration serves."""
        with self._lock:
            config = self.config(params["EndpointConfigName"])
            del self._configs[config.name.lower()]
            self._tags.detach(config.arn)
        return {}

    def list_endpoint_configs(self, params: Params) -> dict[str, Any]:
        """ListEndpointConfigs."""
        with self._lock:
            summaries = [
                {
                    "EndpointConfigName": config.name,
                    "EndpointConfigArn": config.arn,
                    "CreationTime": config.created_at,
                }
                for config in self._configs.values()
            ]
        return listing.result("EndpointConfigs", *listing.page(summaries, params, "EndpointConfigName"))

    def model(self, name: str) -> Model:
        """Return a model. The caller holds the lock.

        Raises:
            ServiceError: ValidationException if there is none.
        """
        if name.lower() not in self._models:
            missing = arn(self._scope.account, self._scope.region, "model", name)
            raise invalid(messages.not_found("model", missing))
        return self._models[name.lower()]

    def config(self, name: str) -> EndpointConfig:
        """Return an endpoint configuration. The caller holds the lock.

        Raises:
            ServiceError: ValidationException if there is none.
        """
        if name.lower() not in self._configs:
            missing = arn(self._scope.account, self._scope.region, "endpoint-config", name)
            raise invalid(messages.not_found("endpoint configuration", missing))
        return self._configs[name.lower()]

    def _read_model(self, request: dict[str, Any]) -> Model:
        container = container_of(request)
        if container is None or container.get("Mode", "SingleModel") != "SingleModel":
            raise invalid("The local AWS hosts models with exactly one container, in mode SingleModel.")
        image = container.get("Image")
        if not image:
            raise invalid("The local AWS hosts containers with an Image only, no model packages.")
        self._check_image(image, container)
        environment = dict(container.get("Environment") or {})
        size = sum(len(key.encode()) + len(value.encode()) for key, value in environment.items())
        if size > _ENVIRONMENT_BYTES:
            raise invalid(f"Environment must have at most {_ENVIRONMENT_BYTES} bytes in all; it has {size}.")
        name, role = request["ModelName"], request.get("ExecutionRoleArn", "")
        try:
            data = data_of(container)
        except ValueError as error:
            raise invalid(str(error)) from error
        if data is not None:
            s3 = self._clients.get("s3", self._scope)
            if model_data.bucket_region(s3, data.bucket) != self._scope.region:
                raise invalid(messages.model_data_inaccessible(data.url, role, self._scope.region))
            if not model_data.exists(s3, data):
                raise invalid(messages.model_data_missing(data.url))
        return Model(
            name=name,
            arn=arn(self._scope.account, self._scope.region, "model", name),
            created_at=datetime.now(UTC),
            request=request,
            image=image,
            environment=environment,
            role=role,
            container_name=container.get("ContainerHostname") or "primary",
            data=data,
        )

    def _check_image(self, image: str, container: Params) -> None:
        reference = parse_ecr(image)
        if reference is None:
            if (container.get("ImageConfig") or {}).get("RepositoryAccessMode") != "Vpc":
                raise invalid(messages.non_ecr_image(image))
        elif reference.region != self._scope.region:
            raise invalid(messages.foreign_image_region(image, self._scope.region))
        try:
            self._registry.find(image)
        except UnsupportedManifestError as error:
            raise invalid(str(error)) from error

    def _check_config(self, request: Params, faults: Mapping[str, Fault]) -> None:
        for key in _NOT_HOSTED:
            if request.get(key):
                raise invalid(f"The local AWS does not host {key}.")
        names = [variant["VariantName"] for variant in request["ProductionVariants"]]
        if len(set(names)) < len(names):
            raise invalid("Variant names must be unique within an endpoint configuration.")
        modes = {name: fault.mode for name, fault in faults.items()}
        offered = tuple(
            name
            for name in instance_types()
            if modes.get(name) is not FaultMode.UNKNOWN_TYPE and self._quotas.of(name) is not None
        )
        for position, variant in enumerate(request["ProductionVariants"], start=1):
            _check_variant(variant, f"productionVariants.{position}.member", offered)
        kms_key = request.get("KmsKeyId")
        if not kms_key:
            return
        if kms_key.startswith("arn:") and kms_key.split(":")[3] != self._scope.region:
            raise invalid(messages.foreign_key_region(kms_key, self._scope.region))
        for variant in request["ProductionVariants"]:
            for choice in variant.get("InstancePools") or [variant]:
                if modes.get(choice["InstanceType"]) is FaultMode.NVME_KEY:
                    raise invalid(messages.key_refused(choice["InstanceType"]))


def invalid(message: str) -> ServiceError:
    """Return SageMaker's usual refusal."""
    return ServiceError("ValidationException", message)


@functools.cache
def instance_types() -> tuple[str, ...]:
    """Return every instance type for endpoints that the service model knows."""
    model = botocore.session.Session().get_service_model("sagemaker")
    return tuple(model.shape_for("ProductionVariantInstanceType").metadata["enum"])


def _check_variant(variant: Params, member: str, offered: tuple[str, ...]) -> None:
    for key in _NOT_HOSTED_VARIANTS:
        if variant.get(key):
            raise invalid(f"The local AWS does not host {key}.")
    pools = variant.get("InstancePools") or []
    if bool(pools) == bool(variant.get("InstanceType")):
        raise invalid(f"Specify either InstanceType or InstancePools for variant {variant['VariantName']}.")
    if not all(pool.get("ModelNameOverride") or variant.get("ModelName") for pool in pools or [variant]):
        raise invalid(f"ModelName is required for variant {variant['VariantName']}.")
    if len({pool["Priority"] for pool in pools}) < len(pools):
        raise invalid(f"Priorities of InstancePools must be unique in variant {variant['VariantName']}.")
    wanted = {f"{member}.instanceType": variant.get("InstanceType")} | {
        f"{member}.instancePools.{index}.member.instanceType": pool["InstanceType"]
        for index, pool in enumerate(pools, start=1)
    }
    for path, instance_type in wanted.items():
        if instance_type is None:
            continue
        if instance_type not in offered:
            raise invalid(messages.unknown_instance_type(instance_type, path, offered))
        if variant.get("VolumeSizeInGB") and _NVME_FAMILIES.fullmatch(instance_type.split(".")[1]):
            raise invalid(f"VolumeSizeInGB is not supported for instance type {instance_type}.")
