"""The Python side of a Lambda execution environment: a line of JSON in, a line of JSON out, again and again.

Runs as a script in its own process. Standard input holds one request per line; the answers go to the file
descriptor that LOCALAWS_ANSWERS names, so that the function may print what it likes.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any


class Context:
    """What a handler gets as its second argument."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.aws_request_id: str = request["request_id"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.invoked_function_arn: str = request["function_arn"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None
        self._deadline = time.monotonic() + request["timeout_s"]

    def get_remaining_time_in_millis(self) -> int:
        """Return the time left before the function is stopped."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def failed(error: BaseException) -> dict[str, Any]:
    """Return an error as Lambda shows it."""
    traceback.print_exc()
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def load() -> Callable[[Any, Context], Any]:
    """Import the handler."""
    module, _, name = os.environ["_HANDLER"].rpartition(".")
    handler: Callable[[Any, Context], Any] = getattr(importlib.import_module(module.replace("/", ".")), name)
    return handler


def main() -> None:
    """Serve requests until standard input ends."""
    sys.path[0] = os.environ["LAMBDA_TASK_ROOT"]
    handler: Callable[[Any, Context], Any] | None = None
    with open(int(os.environ["LOCALAWS_ANSWERS"]), "w", encoding="utf-8") as answers:  # noqa: PTH123
        for line in sys.stdin:
            request = json.loads(line)
            try:
                handler = handler or load()
                document = json.dumps(handler(request["event"], Context(request)))
                answer = f'{{"ok": true, "payload": {document}}}'
            except BaseException as error:
                answer = json.dumps({"ok": False, "payload": failed(error)})
            sys.stdout.flush()
            sys.stderr.flush()
            print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
