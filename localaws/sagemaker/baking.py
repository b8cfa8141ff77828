"""The waits of an update whose new fleet is healthy, in which alarms may still send it back."""

from __future__ import annotations

import threading
import time

from localaws.protocol import Scope
from localaws.sagemaker import messages, monitors
from localaws.sagemaker.deployments import Deployment
from localaws.sagemaker.hosting import ClosingError
from localaws.sagemaker.lifecycle import Plan

_ALARM_POLL_S = 0.1


def bake(
    scope: Scope, deployment: Deployment, plan: Plan, longest_wait_s: float, closing: threading.Event
) -> str | None:
    """Wait as the deployment says, `longest_wait_s` each at most; return why it must go back, None if not.

    Raises:
        ClosingError: the local AWS shuts down.
    """
    count = max(placement.variant.instance_count for placement in plan.placements)
    for wait_s in deployment.waits_s(count):
        deadline = time.monotonic() + min(wait_s, longest_wait_s)
        while True:
            tripped = monitors.in_alarm(scope, deployment.alarms)
            if tripped:
                return messages.alarms_tripped(tripped)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            if closing.wait(min(left_s, _ALARM_POLL_S)):
                raise ClosingError
    return None
