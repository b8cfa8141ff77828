"""Endpoints of one account and region: their operations, and a thread for each transition."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from localaws.protocol import Scope, ServiceError
from localaws.sagemaker import deployments, lifecycle, listing, messages, monitors
from localaws.sagemaker.baking import bake
from localaws.sagemaker.catalog import Catalog, Params, invalid
from localaws.sagemaker.deployments import Deployment
from localaws.sagemaker.descriptions import described
from localaws.sagemaker.faults import FaultTable
from localaws.sagemaker.fleets import serving, stop_all
from localaws.sagemaker.hosting import ClosingError, HostedVariant, Hosting, HostingError
from localaws.sagemaker.lifecycle import EndpointState, Plan, Status
from localaws.sagemaker.models import EndpointConfig, Model, Variant, arn
from localaws.sagemaker.quotas import QuotaExceededError, Quotas
from localaws.sagemaker.supervision import Supervisor
from localaws.sagemaker.tags import TagStore, check_tags

log = logging.getLogger("localaws.sagemaker")


@dataclass
class _Record:
    state: EndpointState
    hosted: tuple[HostedVariant, ...] = ()
    deployment_config: Mapping[str, Any] | None = None
    pending: tuple[tuple[str, int], ...] = ()
    """Instances that a transition holds beside those that serve."""


@dataclass
class EndpointTimes:
    """Compressed times, in seconds: finding instances, and the longest of a deployment's own waits.

    The backend changes them while endpoints read them.
    """

    ready_s: float
    longest_wait_s: float = 1.0


class Endpoints:
    """State changes under the lock; waiting, fetching, starting and stopping happen in threads outside it."""

    def __init__(
        self,
        scope: Scope,
        catalog: Catalog,
        tags: TagStore,
        hosting: Hosting,
        *,
        quotas: Quotas,
        times: EndpointTimes,
        lock: threading.RLock,
        closing: threading.Event,
    ) -> None:
        self._scope = scope
        self._catalog = catalog
        self._tags = tags
        self._hosting = hosting
        self._quotas = quotas
        self._times = times
        self._lock = lock
        self._closing = closing
        self._records: dict[str, _Record] = {}
        self._threads: list[threading.Thread] = []
        self._supervisor = Supervisor(scope, hosting, self._serving_containers, self._exchange, closing)

    def create_endpoint(self, params: Params, faults: FaultTable) -> dict[str, Any]:
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
            _deployment(params.get("DeploymentConfig"), config.variants)
            plan = self._plan(config.variants, faults, None)
            state = lifecycle.created(name, endpoint_arn, config.name, datetime.now(UTC))
            record = _Record(state, (), params.get("DeploymentConfig"), plan.instances)
            self._records[name.lower()] = record
            self._tags.attach(endpoint_arn, tags)
            self._spawn(lambda: self._deploy(record, plan, models, Deployment()), f"create {name}")
        return {"EndpointArn": endpoint_arn}

    def update_endpoint(self, params: Params, faults: FaultTable) -> dict[str, Any]:
        """UpdateEndpoint: the old containers serve until the new ones are healthy and their waits over."""
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
            self._check_scaled(record.state, config)
            given = params.get("DeploymentConfig")
            if given is None and params.get("RetainDeploymentConfig"):
                given = record.deployment_config
            deployment = _deployment(given, variants)
            models = self._models(variants)
            plan = self._plan(variants, faults, deployment)
            record.state = replace(state, target_config=config.name)
            record.deployment_config, record.pending = given, plan.instances
            self._spawn(lambda: self._deploy(record, plan, models, deployment), f"update {state.name}")
        return {"EndpointArn": state.arn}

    def update_endpoint_weights_and_capacities(self, params: Params) -> dict[str, Any]:
        """UpdateEndpointWeightsAndCapacities: what Application Auto Scaling calls."""
        wanted = {one["VariantName"]: one for one in params["DesiredWeightsAndCapacities"]}
        with self._lock:
            self._check_open()
            record = self._record(params["EndpointName"])
            unknown = sorted(set(wanted) - {variant.name for variant in record.state.serving})
            if unknown:
                raise invalid(f"Variant {unknown[0]} does not exist in endpoint {record.state.name}.")
            state = _allowed(lambda: lifecycle.scaling(record.state, wanted, datetime.now(UTC)))
            more = {
                variant.instance_type: (variant.desired_count or 0) - variant.instance_count
                for variant in state.serving
            }
            self._check_quota({name: count for name, count in more.items() if count > 0})
            record.state = state
            self._spawn(lambda: self._scale(record), f"scale {state.name}")
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
        self._supervisor.join()
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

    def _plan(self, variants: Sequence[Variant], faults: FaultTable, deployment: Deployment | None) -> Plan:
        struck = faults.take(name for variant in variants for name in variant.instance_types)
        try:
            lifecycle.check_quota(variants, struck)
        except QuotaExceededError as error:
            raise ServiceError("ResourceLimitExceeded", str(error)) from error
        self._check_quota(deployments.needed(variants, deployment))
        return lifecycle.plan(variants, struck, self._times.ready_s)

    def _check_quota(self, wanted: Mapping[str, int]) -> None:
        in_use = Counter[str]()
        for record in self._records.values():
            held = [pair for variant in record.state.serving for pair in variant.instances]
            for instance_type, count in (*held, *record.pending):
                in_use[instance_type] += count
        try:
            self._quotas.check(wanted, in_use)
        except QuotaExceededError as error:
            raise ServiceError("ResourceLimitExceeded", str(error)) from error

    def _check_scaled(self, state: EndpointState, config: EndpointConfig) -> None:
        changed = deployments.retyped(state.serving, config.variants)
        scaled = [name for name in changed if monitors.is_scaled(self._scope, state.name, name)]
        if scaled:
            raise invalid(messages.scaled_variants(scaled))

    def _spawn(self, work: Callable[[], None], name: str) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _deploy(
        self, record: _Record, plan: Plan, models: Mapping[str, Model], deployment: Deployment
    ) -> None:
        hosted = list[HostedVariant]()
        updates = record.state.serving_config is not None
        rolled_back = plan.silent_rollback and updates
        try:
            reason = plan.failure if rolled_back else self._started(record, plan, models, hosted)
            self._wait(plan.seconds if rolled_back else 0)
            if updates and not rolled_back and not reason:
                reason = bake(self._scope, deployment, plan, self._times.longest_wait_s, self._closing)
            if reason and updates:
                with self._lock:
                    record.state = lifecycle.rolling_back(record.state, reason, datetime.now(UTC))
                self._wait(min(self._times.ready_s, self._times.longest_wait_s))
        except ClosingError:
            stop_all(hosted)
            return
        now = datetime.now(UTC)
        with self._lock:
            record.pending = ()
            if reason and updates and plan.rollback_fails:
                record.state, retired = lifecycle.stuck(record.state, now), tuple(hosted)
            elif reason or rolled_back:
                record.state, retired = lifecycle.failed(record.state, reason, now), tuple(hosted)
            else:
                record.state = lifecycle.healthy(record.state, tuple(serving(one) for one in hosted), now)
                retired, record.hosted = record.hosted, tuple(hosted)
        self._supervisor.begin()
        stop_all(retired, self._hosting.drain_s)

    def _started(
        self, record: _Record, plan: Plan, models: Mapping[str, Model], hosted: list[HostedVariant]
    ) -> str | None:
        """Find instances and start every variant into `hosted`; return why that failed, None if not."""
        self._wait(plan.seconds)
        try:
            for placement in plan.placements:
                model = models[placement.entry.model_name]
                hosted.append(self._hosting.start(self._scope, record.state.name, placement, model))
        except HostingError as error:
            return str(error)
        except ClosingError:
            raise
        except Exception:
            log.exception("endpoint %s", record.state.name)
            return messages.SERVICE_FAILED
        return plan.failure

    def _wait(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise ClosingError

    def _scale(self, record: _Record) -> None:
        if self._closing.wait(self._times.ready_s):
            return
        with self._lock:
            record.state = lifecycle.scaled(record.state, datetime.now(UTC))

    def _serving_containers(self) -> list[tuple[str, HostedVariant]]:
        with self._lock:
            return [
                (record.state.name, one)
                for record in self._records.values()
                if record.state.status is not Status.DELETING
                for one in record.hosted
            ]

    def _exchange(self, name: str, old: HostedVariant, new: HostedVariant) -> bool:
        """Let a restarted container take a dead one's place, unless that has gone meanwhile."""
        with self._lock:
            record = self._records.get(name.lower())
            if record is None or old not in record.hosted or record.state.status is Status.DELETING:
                return False
            record.hosted = tuple(new if one is old else one for one in record.hosted)
            return True

    def _remove(self, record: _Record) -> None:
        stop_all(record.hosted)
        with self._lock:
            self._records.pop(record.state.name.lower(), None)
            self._tags.detach(record.state.arn)


def _allowed(transition: Callable[[], EndpointState]) -> EndpointState:
    try:
        return transition()
    except lifecycle.RefusedError as error:
        raise invalid(str(error)) from error


def _deployment(config: Mapping[str, Any] | None, variants: Iterable[Variant]) -> Deployment:
    try:
        return deployments.read_deployment(config, variants)
    except deployments.DeploymentError as error:
        raise invalid(str(error)) from error
