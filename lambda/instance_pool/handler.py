"""Entry points of the Provider framework: `on_event` names the resource, `is_complete` does all work.

If `on_event` failed during Create, CloudFormation would skip the Delete that cleans up; so it only answers
the physical id, which is the endpoint's name, and every call to SageMaker is made from `is_complete`.
"""

import json
from collections.abc import Mapping
from functools import cache

from instance_pool.properties import Operation, parse_operation, physical_resource_id
from instance_pool.reconcile import Complete, reconcile
from instance_pool.sagemaker_api import SageMakerApi


def on_event(event: Mapping[str, object], _context: object) -> dict[str, object]:
    """Answer the physical id."""
    return {"PhysicalResourceId": physical_resource_id(event)}


def is_complete(event: Mapping[str, object], _context: object) -> dict[str, object]:
    """Bring the operation as far as it goes now and say whether it has ended."""
    operation = parse_operation(event)
    result = reconcile(operation, _api(), lambda fields: _log(operation, fields))
    if isinstance(result, Complete):
        return {"IsComplete": True, "Data": dict(result.data)}
    return {"IsComplete": False}


@cache
def _api() -> SageMakerApi:
    return SageMakerApi.connect()


def _log(operation: Operation, fields: Mapping[str, object]) -> None:
    head = {
        "request_type": operation.request_type,
        "request_id": operation.request_id,
        "endpoint": operation.endpoint_name,
    }
    print(json.dumps({**head, **fields}, ensure_ascii=False, default=str), flush=True)
