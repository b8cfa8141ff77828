"""Endpoints of one account and region: their operations, and a thread for each transition."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from localaws.protocol import Scope, ServiceError
from localaws.sagemaker import lifecycle, listing, messages
from localaws.sagemaker.catalog import Catalog, Params, invalid
from localaws.sagemaker.descriptions import described
from localaws.sagemaker.faults import Fault
from localaws.sagemaker.hosting import ClosingError, HostedVariant, Hosting, HostingError
from localaws.sagemaker.lifecycle import EndpointState, Plan
from localaws.sagemaker.models import Model, ServingVariant, Variant, arn
from localaws.sagemaker.tags import TagStore, check_tags

log = logging.getLogger("localaws.sagemaker")

_SERVICE_FAILED = "Request to service failed. If failure persists after retry, contact customer support."


@dataclass
class _Record:
    state: EndpointState
    hosted: tuple[HostedVariant, ...] = ()
    deployment_config: Mapping[str, Any] | None = None
    models: Mapping[str, Model] = field(default_factory=dict)


class Endpoints:
    """State changes under the lock; waiting, fetching, starting and stopping happen in threads outside it."""

    def __init__(
        self,
        scope: Scope,
        catalog: Catalog,
        tags: TagStore,
        hosting: Hosting,
        *,
        ready_s: float,
        lock: threading.RLock,
        closing: threading.Event,
    ) -> None:
        self._scope = scope
        self._catalog = catalog
        self._tags = tags
        self._hosting = hosting
        self._ready_s = ready_s
        self._lock = lock
        self._closing = closing
        self._records: dict[str, _Record] = {}
        self._threads: list[threading.Thread] = []

    def create_endpoint(self, params: Params, faults: Mapping[str, Fault]) -> dict[str, Any]:
        """CreateEndpoint: quota at once, everything else later."""
        name = params["EndpointName"]
        endpoint_arn = arn(self._scope.account, self._scope.region, "endpoint", name)
        tags = check_tags(params.get("Tags") or [])
        with self._lock:
            self._check_open()
            if name.lower() in self._records:
                raise invalid(messages.already_exists("endpoint", endpoint_arn))
            config = self._catalog.config(params["EndpointConfigName"])
            models = self._models(config.variants)
            plan = self._plan(config.variants, faults)
            state = lifecycle.created(name, endpoint_arn, config.name, datetime.now(UTC))
            record = _Record(state, deployment_config=params.get("DeploymentConfig"))
            self._records[name.lower()] = record
            self._tags.attach(endpoint_arn, tags)
            self._spawn(lambda: self._deploy(record, plan, models), f"create {name}")
        return {"EndpointArn": endpoint_arn}

    def update_endpoint(self, params: Params, faults: Mapping[str, Fault]) -> dict[str, Any]:
        """UpdateEndpoint: the old containers serve until the new ones are healthy."""
        with self._lock:
            self._check_open()
            record = self._record(params["EndpointName"])
            wanted = arn(
                self._scope.account, self._scope.region, "endpoint-config", params["EndpointConfigName"]
            )
            state = _allowed(
                lambda: lifecycle.updating(
                    record.state, params["EndpointConfigName"], wanted, datetime.now(UTC)
                )
            )
            config = self._catalog.config(params["EndpointConfigName"])
            if record.state.serving_config:
                self._catalog.config(record.state.serving_config)
            variants = lifecycle.retained(config.variants, record.state.serving, params)
            models = self._models(variants)
            plan = self._plan(variants, faults)
            record.state = replace(state, target_config=config.name)
            if params.get("DeploymentConfig") or not params.get("RetainDeploymentConfig"):
                record.deployment_config = params.get("DeploymentConfig")
            self._spawn(lambda: self._deploy(record, plan, models), f"update {state.name}")
        return {"EndpointArn": state.arn}

    def delete_endpoint(self, params: Params) -> dict[str, Any]:
        """DeleteEndpoint: Deleting until every process is gone."""
        with self._lock:
            self._check_open()
            record = self._record(params["EndpointName"])
            record.state = _allowed(lambda: lifecycle.deleting(record.state, datetime.now(UTC)))
            self._spawn(lambda: self._remove(record), f"delete {record.state.name}")
        return {}

    def describe_endpoint(self, params: Params) -> dict[str, Any]:
        """DescribeEndpoint."""
        with self._lock:
            record = self._record(params["EndpointName"])
            state, deployment_config = record.state, record.deployment_config
        return described(state, deployment_config)

    def list_endpoints(self, params: Params) -> dict[str, Any]:
        """ListEndpoints."""
        with self._lock:
            states = [record.state for record in self._records.values()]
        summaries = [
            {
                "EndpointName": state.name,
                "EndpointArn": state.arn,
                "CreationTime": state.created_at,
                "LastModifiedTime": state.modified_at,
                "EndpointStatus": state.status.value,
            }
            for state in states
        ]
        return listing.result("Endpoints", *listing.page(summaries, params, "EndpointName"))

    def hosted(self, name: str) -> tuple[EndpointState, tuple[HostedVariant, ...]] | None:
        """Return an endpoint's state and running variants for the runtime, None if there is no endpoint."""
        with self._lock:
            record = self._records.get(name.lower())
            return (record.state, record.hosted) if record else None

    def close(self) -> None:
        """Wait for the transitions that `closing` has given up, then stop every container."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()
        with self._lock:
            hosted = [variant for record in self._records.values() for variant in record.hosted]
            self._records.clear()
        stop_all(hosted)

    def _record(self, name: str) -> _Record:
        if name.lower() not in self._records:
            missing = arn(self._scope.account, self._scope.region, "endpoint", name)
            raise invalid(messages.not_found("endpoint", missing))
        return self._records[name.lower()]

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise ServiceError("ServiceUnavailable", "The local AWS is shutting down.", 503)

    def _models(self, variants: Iterable[Variant]) -> dict[str, Model]:
        names = {entry.model_name for variant in variants for entry in variant.pool}
        return {name: self._catalog.model(name) for name in names}

    def _plan(self, variants: Sequence[Variant], faults: Mapping[str, Fault]) -> Plan:
        try:
            lifecycle.check_quota(variants, faults)
        except lifecycle.QuotaExceededError as error:
            raise ServiceError("ResourceLimitExceeded", str(error)) from error
        return lifecycle.plan(variants, faults, self._ready_s)

    def _spawn(self, work: Callable[[], None], name: str) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _deploy(self, record: _Record, plan: Plan, models: Mapping[str, Model]) -> None:
        if self._closing.wait(plan.seconds):
            return
        reason, hosted = plan.failure, list[HostedVariant]()
        rolled_back = plan.silent_rollback and record.state.serving_config is not None
        try:
            for placement in () if rolled_back else plan.placements:
                model = models[placement.entry.model_name]
                hosted.append(self._hosting.start(self._scope, record.state.name, placement, model))
        except HostingError as error:
            reason = str(error)
        except ClosingError:
            stop_all(hosted)
            return
        except Exception:
            log.exception("endpoint %s", record.state.name)
            reason = _SERVICE_FAILED
        now = datetime.now(UTC)
        with self._lock:
            if reason or rolled_back:
                record.state, retired = lifecycle.failed(record.state, reason, now), tuple(hosted)
            else:
                record.state = lifecycle.healthy(record.state, tuple(_serving(one) for one in hosted), now)
                retired, record.hosted = record.hosted, tuple(hosted)
        stop_all(retired, self._hosting.drain_s)

    def _remove(self, record: _Record) -> None:
        stop_all(record.hosted)
        with self._lock:
            self._records.pop(record.state.name.lower(), None)
            self._tags.detach(record.state.arn)


def stop_all(hosted: Iterable[HostedVariant], drain_s: float = 0.0) -> None:
    """Stop variants at the same time and return when all are gone."""
    threads = [threading.Thread(target=variant.stop, args=(drain_s,), daemon=True) for variant in hosted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _allowed(transition: Callable[[], EndpointState]) -> EndpointState:
    try:
        return transition()
    except lifecycle.RefusedError as error:
        raise invalid(str(error)) from error


def _serving(hosted: HostedVariant) -> ServingVariant:
    variant = hosted.placement.variant
    return ServingVariant(
        name=variant.name,
        instance_type=hosted.placement.entry.instance_type,
        native_pool=variant.native_pool,
        instance_count=variant.instance_count,
        weight=variant.weight,
        image=hosted.model.image,
        resolved_image=hosted.image.resolved,
        resolved_at=datetime.now(UTC),
    )
