"""Service Quotas: what accounts may have of SageMaker's endpoints and CodeBuild's builds.

Names are AWS's; codes are of its form, but made from the names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from localaws.protocol import Scope, ServiceError
from localaws.sagemaker.catalog import instance_types
from localaws.sagemaker.quotas import DEFAULT_INSTANCES, Quotas

Params = Mapping[str, Any]
Answer = dict[str, Any]

_SERVICES = {"codebuild": "AWS CodeBuild", "sagemaker": "Amazon SageMaker"}
_PAGE = 100
_BUILD_ENVIRONMENTS = (
    "ARM Lambda/10GB",
    "ARM/2XLarge",
    "ARM/Large",
    "ARM/Medium",
    "ARM/Small",
    "ARM/XLarge",
    "Linux GPU Large",
    "Linux GPU Small",
    "Linux/2XLarge",
    "Linux/Large",
    "Linux/Medium",
    "Linux/Small",
    "Linux/XLarge",
    "Windows/Large",
    "Windows/Medium",
)
_DEFAULT_BUILDS = 1


def quota_code(service: str, name: str) -> str:
    """Return the code of a quota."""
    return f"L-{hashlib.sha256(f'{service} {name}'.encode()).hexdigest()[:8].upper()}"


class ServiceQuotasBackend:
    """Service Quotas of all accounts and regions: quotas are the same in each.

    Args:
        quotas: SageMaker's instances for endpoint usage.
        concurrent_builds: how many of CodeBuild's builds run at once.
    """

    #: How Service Quotas calls a request that breaks its service model.
    invalid_request_code = "IllegalArgumentException"

    def __init__(self, quotas: Quotas, concurrent_builds: Callable[[], int]) -> None:
        self._quotas = quotas
        self._concurrent_builds = concurrent_builds
        self._lock = threading.Lock()
        self._requests: dict[Scope, list[Answer]] = {}

    def list_services(self, scope: Scope, params: Params) -> Answer:
        """ListServices."""
        del scope
        found = [{"ServiceCode": code, "ServiceName": name} for code, name in _SERVICES.items()]
        return _page("Services", found, params)

    def list_service_quotas(self, scope: Scope, params: Params) -> Answer:
        """ListServiceQuotas: only what the region offers."""
        return _page("Quotas", self._listed(scope, params["ServiceCode"], applied=True), params)

    def list_aws_default_service_quotas(self, scope: Scope, params: Params) -> Answer:
        """ListAWSDefaultServiceQuotas: what an account has that never asked for more."""
        return _page("Quotas", self._listed(scope, params["ServiceCode"], applied=False), params)

    def get_service_quota(self, scope: Scope, params: Params) -> Answer:
        """GetServiceQuota."""
        return {"Quota": self._one(scope, params, applied=True)}

    def get_aws_default_service_quota(self, scope: Scope, params: Params) -> Answer:
        """GetAWSDefaultServiceQuota."""
        return {"Quota": self._one(scope, params, applied=False)}

    def request_service_quota_increase(self, scope: Scope, params: Params) -> Answer:
        """RequestServiceQuotaIncrease: it is recorded and stays pending."""
        quota, wanted = self._one(scope, params, applied=True), params["DesiredValue"]
        if wanted <= quota["Value"]:
            raise ServiceError(
                "IllegalArgumentException", "The desired value must be greater than the current quota value."
            )
        with self._lock:
            requests = self._requests.setdefault(scope, [])
            if any(one["QuotaCode"] == quota["QuotaCode"] for one in requests):
                raise ServiceError(
                    "ResourceAlreadyExistsException",
                    "Only one open service quota increase request is allowed.",
                )
            now = datetime.now(UTC)
            made = {
                "Id": uuid.uuid4().hex + uuid.uuid4().hex[:8],
                **{key: quota[key] for key in ("ServiceCode", "ServiceName", "QuotaCode", "QuotaName")},
                "DesiredValue": wanted,
                "Status": "PENDING",
                "Created": now,
                "LastUpdated": now,
                "Requester": f'{{"accountId":"{scope.account}"}}',
                "QuotaArn": quota["QuotaArn"],
                "GlobalQuota": False,
                "Unit": "None",
            }
            requests.append(made)
        return {"RequestedQuota": made}

    def list_requested_service_quota_change_history(self, scope: Scope, params: Params) -> Answer:
        """ListRequestedServiceQuotaChangeHistory."""
        with self._lock:
            found = [
                one
                for one in self._requests.get(scope, [])
                if params.get("ServiceCode", one["ServiceCode"]) == one["ServiceCode"]
            ]
        return _page("RequestedQuotas", found, params)

    def list_requested_service_quota_change_history_by_quota(self, scope: Scope, params: Params) -> Answer:
        """ListRequestedServiceQuotaChangeHistoryByQuota."""
        quota = self._one(scope, params, applied=True)
        with self._lock:
            found = [one for one in self._requests.get(scope, []) if one["QuotaCode"] == quota["QuotaCode"]]
        return _page("RequestedQuotas", found, params)

    def _one(self, scope: Scope, params: Params, *, applied: bool) -> Answer:
        for quota in self._listed(scope, params["ServiceCode"], applied=applied):
            if quota["QuotaCode"] == params["QuotaCode"]:
                return quota
        raise ServiceError(
            "NoSuchResourceException",
            f"The request failed because the specified quota {params['QuotaCode']} does not exist.",
        )

    def _listed(self, scope: Scope, service: str, *, applied: bool) -> list[Answer]:
        if service not in _SERVICES:
            raise ServiceError(
                "NoSuchResourceException",
                f"The request failed because the specified service {service} does not exist.",
            )
        values = self._sagemaker() if service == "sagemaker" else self._codebuild()
        partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}.get(scope.region.rsplit("-", 2)[0], "aws")
        where = f"arn:{partition}:servicequotas:{scope.region}:{scope.account}:{service}"
        return [
            {
                "ServiceCode": service,
                "ServiceName": _SERVICES[service],
                "QuotaArn": f"{where}/{quota_code(service, name)}",
                "QuotaCode": quota_code(service, name),
                "QuotaName": name,
                "Value": float(value if applied else default),
                "Unit": "None",
                "Adjustable": True,
                "GlobalQuota": False,
            }
            for name, (value, default) in sorted(values.items())
        ]

    def _sagemaker(self) -> dict[str, tuple[int, int]]:
        """Return value and default of each quota; training's are listed because AWS lists them between."""
        found = {}
        for instance_type in instance_types():
            value = self._quotas.of(instance_type)
            if value is not None:
                found[f"{instance_type} for endpoint usage"] = value, DEFAULT_INSTANCES
                found[f"{instance_type} for training job usage"] = 0, 0
        return found

    def _codebuild(self) -> dict[str, tuple[int, int]]:
        value = self._concurrent_builds()
        return {
            f"Concurrently running builds for {environment} environment": (value, _DEFAULT_BUILDS)
            for environment in _BUILD_ENVIRONMENTS
        }


def _page(key: str, items: list[Answer], params: Params) -> Answer:
    start = 0
    if params.get("NextToken"):
        try:
            start = int(base64.b64decode(params["NextToken"], validate=True))
        except (ValueError, binascii.Error) as error:
            raise ServiceError("InvalidPaginationTokenException", "Invalid token.") from error
    end = start + params.get("MaxResults", _PAGE)
    token = base64.b64encode(str(end).encode()).decode()
    return {key: items[start:end]} | ({"NextToken": token} if end < len(items) else {})
