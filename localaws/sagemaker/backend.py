"""The entrance to SageMaker: a method for each operation, the injected faults and the pushed images."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from localaws.clients import Clients
from localaws.protocol import Scope, ServiceError
from localaws.registry.blobs import Blobs
from localaws.registry.registry import Registry
from localaws.sagemaker import runtime, runtime_stream
from localaws.sagemaker.catalog import Catalog, Params, instance_types
from localaws.sagemaker.endpoints import Endpoints, EndpointTimes
from localaws.sagemaker.faults import FaultTable, FaultTableError, parse_faults, render_faults
from localaws.sagemaker.hosting import Hosting, HostingSettings
from localaws.sagemaker.images import ImageRegistry, ImageSpecError, parse_image
from localaws.sagemaker.quotas import Quotas, QuotaTableError
from localaws.sagemaker.runtime_stream import StreamAnswer
from localaws.sagemaker.runtime_target import Answer, Look
from localaws.sagemaker.tags import TagStore, check_tags, render


@dataclass(frozen=True)
class _Region:
    tags: TagStore
    catalog: Catalog
    endpoints: Endpoints


class SageMakerBackend:
    """SageMaker of all accounts and regions.

    Every operation takes parameters and returns a result with the service model's keys. Parameters are
    taken to satisfy the service model. Errors are `localaws.protocol.ServiceError` with SageMaker's texts.

    Args:
        server_url: where the local S3, STS and CloudWatch Logs listen.
        ready_s: seconds that finding instances takes where no fault says otherwise.
        longest_wait_s: the longest of the waits that a DeploymentConfig asks for.
        settings: times of hosting.
        blobs: where pushed images lie; without it only process images run.
    """

    def __init__(
        self,
        server_url: str,
        ready_s: float,
        settings: HostingSettings | None = None,
        blobs: Callable[[], Blobs] | None = None,
        longest_wait_s: float = EndpointTimes.longest_wait_s,
    ) -> None:
        self._settings = settings or HostingSettings()
        self._times = EndpointTimes(ready_s, longest_wait_s)
        self._quotas = Quotas()
        self._clients = Clients(server_url)
        self._images = ImageRegistry(Registry(self._clients), blobs)
        self._closing = threading.Event()
        self._hosting = Hosting(self._clients, self._images, self._settings, self._closing)
        self._lock = threading.RLock()
        self._faults = FaultTable()
        self._regions: dict[Scope, _Region] = {}

    def put_faults(self, mapping: Mapping[str, Any]) -> None:
        """Replace the fault table; transitions that run keep theirs. A wrong one is a ServiceError."""
        try:
            faults = parse_faults(mapping)
        except FaultTableError as error:
            raise ServiceError("ValidationException", str(error)) from error
        with self._lock:
            self._faults = FaultTable(faults)

    def faults(self) -> dict[str, dict[str, Any]]:
        """Return the fault table as it was put."""
        with self._lock:
            return render_faults(self._faults.all())

    def put_quotas(self, mapping: Mapping[str, Any]) -> None:
        """Replace the quotas by instance type; what runs stays. A wrong one is a ServiceError."""
        try:
            self._quotas.put(mapping, instance_types())
        except QuotaTableError as error:
            raise ServiceError("ValidationException", str(error)) from error

    def put_times(self, document: Mapping[str, Any]) -> None:
        """Change `ready_s` or `longest_wait_s`; a wrong one is a ServiceError."""
        for name, value in document.items():
            if name not in self.times():
                allowed = ", ".join(self.times())
                raise ServiceError("ValidationException", f"{name}: unknown key; allowed: {allowed}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
                raise ServiceError("ValidationException", f"{name}: {value!r} is not a number from 0 to 3600")
        for name, value in document.items():
            setattr(self._times, name, float(value))

    def times(self) -> dict[str, float]:
        """Return the times of endpoints as `put_times` reads them."""
        return asdict(self._times)

    @property
    def quotas(self) -> Quotas:
        """Return the quotas by instance type."""
        return self._quotas

    def put_image(self, spec: Mapping[str, Any]) -> str:
        """Push a process's image and return its URI by digest. A wrong description is a ServiceError."""
        try:
            image = parse_image(spec)
        except ImageSpecError as error:
            raise ServiceError("ValidationException", str(error)) from error
        try:
            self._images.put(image)
        except ClientError as error:
            raise ServiceError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
        return image.resolved

    def close(self) -> None:
        """Give up what is starting and stop every container. Returns when all processes are gone."""
        self._closing.set()
        with self._lock:
            regions = list(self._regions.values())
        threads = [threading.Thread(target=region.endpoints.close) for region in regions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def invoke_endpoint(
        self, scope: Scope, name: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """InvokeEndpoint of the runtime: status, headers and body of the answer, errors too."""
        look, limit_s = self._look(scope, name), self._settings.invocation_limit_s
        return runtime.invoke(scope, name, look, headers, body, limit_s=limit_s)

    def invoke_endpoint_with_response_stream(
        self, scope: Scope, name: str, headers: Mapping[str, str], body: bytes
    ) -> Answer | StreamAnswer:
        """InvokeEndpointWithResponseStream of the runtime: its errors are bytes, its stream an iterator."""
        look, limit_s = self._look(scope, name), self._settings.stream_limit_s
        return runtime_stream.invoke_with_response_stream(scope, name, look, headers, body, limit_s=limit_s)

    def chat_completions(
        self, scope: Scope, name: str, headers: Mapping[str, str], body: bytes
    ) -> Answer | StreamAnswer:
        """The runtime's OpenAI path."""
        look, limit_s = self._look(scope, name), self._settings.stream_limit_s
        return runtime_stream.chat_completions(scope, name, look, headers, body, limit_s=limit_s)

    def _look(self, scope: Scope, name: str) -> Look:
        endpoints = self._region(scope).endpoints
        return lambda: endpoints.hosted(name)

    def create_model(self, scope: Scope, params: Params) -> dict[str, Any]:
        """CreateModel."""
        return self._region(scope).catalog.create_model(params)

    def describe_model(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DescribeModel."""
        return self._region(scope).catalog.describe_model(params)

    def delete_model(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DeleteModel."""
        return self._region(scope).catalog.delete_model(params)

    def list_models(self, scope: Scope, params: Params) -> dict[str, Any]:
        """ListModels."""
        return self._region(scope).catalog.list_models(params)

    def create_endpoint_config(self, scope: Scope, params: Params) -> dict[str, Any]:
        """CreateEndpointConfig."""
        return self._region(scope).catalog.create_endpoint_config(params, self._faults.all())

    def describe_endpoint_config(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DescribeEndpointConfig."""
        return self._region(scope).catalog.describe_endpoint_config(params)

    def delete_endpoint_config(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DeleteEndpointConfig."""
        return self._region(scope).catalog.delete_endpoint_config(params)

    def list_endpoint_configs(self, scope: Scope, params: Params) -> dict[str, Any]:
        """ListEndpointConfigs."""
        return self._region(scope).catalog.list_endpoint_configs(params)

    def create_endpoint(self, scope: Scope, params: Params) -> dict[str, Any]:
        """CreateEndpoint."""
        return self._region(scope).endpoints.create_endpoint(params, self._faults)

    def update_endpoint(self, scope: Scope, params: Params) -> dict[str, Any]:
        """UpdateEndpoint."""
        return self._region(scope).endpoints.update_endpoint(params, self._faults)

    def update_endpoint_weights_and_capacities(self, scope: Scope, params: Params) -> dict[str, Any]:
        """UpdateEndpointWeightsAndCapacities."""
        return self._region(scope).endpoints.update_endpoint_weights_and_capacities(params)

    def describe_endpoint(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DescribeEndpoint."""
        return self._region(scope).endpoints.describe_endpoint(params)

    def delete_endpoint(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DeleteEndpoint."""
        return self._region(scope).endpoints.delete_endpoint(params)

    def list_endpoints(self, scope: Scope, params: Params) -> dict[str, Any]:
        """ListEndpoints."""
        return self._region(scope).endpoints.list_endpoints(params)

    def add_tags(self, scope: Scope, params: Params) -> dict[str, Any]:
        """AddTags."""
        tags = check_tags(params["Tags"])
        return self._tagging(scope, lambda store: {"Tags": render(store.add(params["ResourceArn"], tags))})

    def delete_tags(self, scope: Scope, params: Params) -> dict[str, Any]:
        """DeleteTags."""

        def remove(store: TagStore) -> dict[str, Any]:
            store.remove(params["ResourceArn"], params["TagKeys"])
            return {}

        return self._tagging(scope, remove)

    def list_tags(self, scope: Scope, params: Params) -> dict[str, Any]:
        """ListTags; a resource's tags fit one page."""
        return self._tagging(scope, lambda store: {"Tags": render(store.of(params["ResourceArn"]))})

    def _tagging(self, scope: Scope, work: Callable[[TagStore], dict[str, Any]]) -> dict[str, Any]:
        with self._lock:
            return work(self._region(scope).tags)

    def _region(self, scope: Scope) -> _Region:
        with self._lock:
            if scope not in self._regions:
                tags = TagStore()
                catalog = Catalog(scope, self._clients, tags, self._quotas, self._lock)
                endpoints = Endpoints(
                    scope,
                    catalog,
                    tags,
                    self._hosting,
                    quotas=self._quotas,
                    times=self._times,
                    lock=self._lock,
                    closing=self._closing,
                )
                self._regions[scope] = _Region(tags, catalog, endpoints)
            return self._regions[scope]
