"""What moto lacks for real deployments, filled from outside where possible.

The reaches into moto's internals are the wait between retries of a state machine, and the end of a scalable
target.
"""

from __future__ import annotations

import json
import time
import types
import uuid
from typing import Any

from moto.applicationautoscaling.models import ApplicationAutoscalingBackend
from moto.core.config import default_user_config
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from localaws.protocol import HttpAnswer, HttpRequest, json_answer


def configure(*, longest_wait_s: float) -> None:
    """Let state machines run, retrying at most `longest_wait_s` apart, and let AWS's own policies exist."""
    settings: Any = default_user_config
    settings["stepfunctions"] = {"execute_state_machine": True}
    settings["iam"] = {"load_aws_managed_policies": True}
    # The Provider framework's waiter is a task that fails and is retried each query interval.
    shortened = types.SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, longest_wait_s)))
    retrier: Any = retrier_decl
    retrier.time = shortened
    scaling: Any = ApplicationAutoscalingBackend
    scaling.deregister_scalable_target = _deregister_with_policies


_deregister = ApplicationAutoscalingBackend.deregister_scalable_target


def _deregister_with_policies(backend: Any, namespace: str, r_id: str, dimension: str) -> None:
    """Deregister a scalable target; its scaling policies go with it, as AWS has it."""
    _deregister(backend, namespace, r_id, dimension)
    theirs = [
        policy.policy_name
        for policy in backend.policies.values()
        if (policy.service_namespace, policy.resource_id, policy.scalable_dimension)
        == (namespace, r_id, dimension)
    ]
    for name in theirs:
        backend.delete_scaling_policy(name, namespace, r_id, dimension)


def answer(service: str, request: HttpRequest) -> HttpAnswer | None:
    """Answer what moto cannot.

    CloudTrail's LookupEvents, which the CDK CLI asks after a failure; scaling activities, of which there are
    none: nothing here scales by itself.
    """
    operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
    if (service, operation) == ("cloudtrail", "LookupEvents"):
        return json_answer({"Events": []})
    if (service, operation) == ("application-autoscaling", "DescribeScalingActivities"):
        return json_answer({"ScalingActivities": []})
    return None


def rewritten(service: str, request: HttpRequest) -> bytes:
    """Return the body that moto is to see: StartExecution always has a name, for moto gives none itself."""
    if service == "states" and request.headers.get("X-Amz-Target", "").endswith(".StartExecution"):
        document = json.loads(request.body)
        return json.dumps({**document, "name": document.get("name") or str(uuid.uuid4())}).encode()
    return request.body
