"""Entry points of the Provider framework: `on_event` names the resource, `is_complete` does all work.

If `on_event` failed during Create, CloudFormation would skip the Delete that cleans up; so it makes no call.
What it answers as Data comes back with each poll: there the operation's beginning is kept. `semif climb`
sends its own event to `is_complete`, in the same form.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache

from instance_pool.answers import Complete
from instance_pool.apis import Apis
from instance_pool.properties import STARTED_AT, Operation, parse_operation, physical_resource_id
from instance_pool.reconcile import reconcile


def on_event(event: Mapping[str, object], _context: object) -> dict[str, object]:
    """Answer the physical id, and when the operation began."""
    return {
        "PhysicalResourceId": physical_resource_id(event),
        "Data": {STARTED_AT: datetime.now(UTC).isoformat()},
    }


def is_complete(event: Mapping[str, object], _context: object) -> dict[str, object]:
    """Bring the operation as far as it goes now and say whether it has ended."""
    operation = parse_operation(event)
    result = reconcile(operation, _apis(), lambda fields: _log(operation, fields))
    if isinstance(result, Complete):
        return {"IsComplete": True, "Data": dict(result.data)}
    return {"IsComplete": False}


@cache
def _apis() -> Apis:
    return Apis.connect()


def _log(operation: Operation, fields: Mapping[str, object]) -> None:
    head = {
        "request_type": operation.request_type,
        "request_id": operation.request_id,
        "endpoint": operation.endpoint_name,
    }
    print(json.dumps({**head, **fields}, ensure_ascii=False, default=str), flush=True)
