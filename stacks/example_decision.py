"""The README's decision, and the command that sends it to an endpoint."""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

EXAMPLE_REQUEST: Final[Mapping[str, Any]] = {
    "decision": {
        "id": "support-route",
        "state": "The customer cannot receive a password reset email.",
        "question": "Which queue should handle this request?",
        "options": [
            {"id": "account_access", "description": "Account access support."},
            {"id": "billing", "description": "Billing support."},
        ],
    }
}


def example_command(endpoint_name: str, region: str, request: Mapping[str, Any] = EXAMPLE_REQUEST) -> str:
    """Make a line for bash that sends the decision with the AWS CLI and prints the answer."""
    body = shlex.quote(json.dumps(request, ensure_ascii=False))
    return (
        f"aws sagemaker-runtime invoke-endpoint --region {region} --endpoint-name {endpoint_name}"
        f" --content-type application/json --cli-binary-format raw-in-base64-out --body {body} /dev/stdout"
    )
