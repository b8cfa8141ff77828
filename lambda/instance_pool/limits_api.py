"""The account's quotas for endpoint instances, and how much of them its endpoints use."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from instance_pool.aws_call import ApiError, call, connect
from instance_pool.failures import Cause
from instance_pool.preflight import SERVICE_CODE, Limit, Limits, quota_type

MAX_PAGES: Final = 100
"""Of the listing: 100 quotas each. SageMaker has some thousands."""
MAX_ENDPOINTS: Final = 40
"""With more endpoints than this the use is not counted: two calls each would take the poll's time."""
# No instances: not made (any more), or about to be free.
_WITHOUT_INSTANCES: Final = frozenset({"Failed", "Deleting", "OutOfService"})

Log = Callable[[Mapping[str, object]], None]


class LimitsApi:
    """Service Quotas and SageMaker. Reads only."""

    def __init__(self, quotas: Any, sagemaker: Any) -> None:
        self._quotas = quotas
        self._sagemaker = sagemaker

    @classmethod
    def connect(cls) -> "LimitsApi":
        """Connect as the SDK's environment says."""
        return cls(connect("service-quotas"), connect("sagemaker"))

    def read(self, types: Collection[str], endpoint_name: str, log: Log) -> Limits | None:
        """The limits of `types`; `own` is the use of the endpoint of that name.

        None where the listing is not to be had, which is logged: SageMaker checks by itself. Throttles and
        lost answers leave as ApiError: the next poll tries again.
        """
        try:
            quotas = self._listed(frozenset(types))
        except ApiError as error:
            if error.cause is Cause.TRANSIENT:
                raise
            log({"step": "NoPreflight", "reason": str(error)})
            return None
        if quotas is None:
            log({"step": "NoPreflight", "reason": "Service Quotas lists no quota for endpoint usage"})
            return None
        own = self._use_of(endpoint_name) if quotas else {}
        in_use = self._use(endpoint_name, own, log) if quotas else None
        return {
            instance_type: Limit(
                name=str(quota["QuotaName"]),
                code=str(quota["QuotaCode"]),
                quota=float(quota["Value"]),
                in_use=None if in_use is None else in_use.get(instance_type, 0),
                own=own.get(instance_type, 0),
            )
            for instance_type, quota in quotas.items()
        }

    def _listed(self, types: frozenset[str]) -> dict[str, Mapping[str, Any]] | None:
        """The quotas of `types`; None if the listing has not one for any type, so that it says nothing."""
        found: dict[str, Mapping[str, Any]] = {}
        any_seen = False
        for quota in self._pages():
            instance_type = quota_type(str(quota.get("QuotaName", "")))
            any_seen = any_seen or instance_type is not None
            if instance_type in types and instance_type is not None:
                found[instance_type] = quota
                if len(found) == len(types):
                    break
        return found if any_seen else None

    def _pages(self) -> Iterator[Mapping[str, Any]]:
        token: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            page = call(
                self._quotas, "list_service_quotas", ServiceCode=SERVICE_CODE, MaxResults=100, **token
            )
            yield from page["Quotas"]
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        raise ApiError("list_service_quotas", "TooManyPages", f"more than {MAX_PAGES} pages", Cause.UNKNOWN)

    def _use(self, endpoint_name: str, own: Mapping[str, int], log: Log) -> dict[str, int] | None:
        """Instances by type over all endpoints; None if that cannot be counted."""
        try:
            names = self._endpoint_names()
            if names is None:
                log({"step": "UseNotCounted", "reason": f"more than {MAX_ENDPOINTS} endpoints"})
                return None
            total = dict(own)
            for name in names:
                if name != endpoint_name:
                    _add(total, self._use_of(name))
        except ApiError as error:
            if error.cause is Cause.TRANSIENT:
                raise
            log({"step": "UseNotCounted", "reason": str(error)})
            return None
        return total

    def _endpoint_names(self) -> list[str] | None:
        names: list[str] = []
        token: dict[str, str] = {}
        while True:
            page = call(self._sagemaker, "list_endpoints", MaxResults=100, **token)
            names += [
                item["EndpointName"]
                for item in page["Endpoints"]
                if item.get("EndpointStatus") not in _WITHOUT_INSTANCES
            ]
            if len(names) > MAX_ENDPOINTS:
                return None
            if not page.get("NextToken"):
                return names
            token = {"NextToken": page["NextToken"]}

    def _use_of(self, endpoint_name: str) -> dict[str, int]:
        """Instances of one endpoint by type, a fleet that is being made included; none if it is not there."""
        described = self._unless_gone("describe_endpoint", EndpointName=endpoint_name)
        if described is None or described.get("EndpointStatus") in _WITHOUT_INSTANCES:
            return {}
        total: dict[str, int] = {}
        pending = described.get("PendingDeploymentSummary") or {}
        serving = described.get("ProductionVariants") or []
        for variants, configuration in (
            (serving, described.get("EndpointConfigName")),
            (pending.get("ProductionVariants") or [], pending.get("EndpointConfigName")),
        ):
            if variants:
                _add(total, self._fleet(variants, str(configuration or "")))
        return total

    def _fleet(self, variants: list[Mapping[str, Any]], configuration_name: str) -> dict[str, int]:
        total: dict[str, int] = {}
        types: Mapping[str, str] | None = None
        for variant in variants:
            if pools := variant.get("InstancePools"):
                _add(total, {p["InstanceType"]: int(p.get("CurrentInstanceCount") or 0) for p in pools})
                continue
            count = max(
                int(variant.get("CurrentInstanceCount") or 0), int(variant.get("DesiredInstanceCount") or 0)
            )
            instance_type = variant.get("InstanceType")
            if instance_type is None:
                types = self._types_of(configuration_name) if types is None else types
                instance_type = types.get(str(variant.get("VariantName")))
            if instance_type is not None:
                _add(total, {str(instance_type): count})
        return total

    def _types_of(self, configuration_name: str) -> dict[str, str]:
        described = self._unless_gone("describe_endpoint_config", EndpointConfigName=configuration_name)
        variants = described["ProductionVariants"] if described else []
        return {v["VariantName"]: v["InstanceType"] for v in variants if v.get("InstanceType")}

    def _unless_gone(self, operation: str, **parameters: object) -> dict[str, Any] | None:
        try:
            return call(self._sagemaker, operation, **parameters)
        except ApiError as error:
            if error.cause is Cause.NOT_FOUND:
                return None
            raise


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for instance_type, count in more.items():
        total[instance_type] = total.get(instance_type, 0) + count
