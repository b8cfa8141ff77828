"""The README's decision, and the command that sends it to an endpoint."""

import json
import shlex
from typing import Final

EXAMPLE_REQUEST: Final = {
    "decision": {
        "id": "support-route",
        "state": "I can't sign in. The password reset link says that it has expired.",
        "question": "Which queue should handle this message?",
        "options": [
            {"id": "account_access", "description": "Sign-in, passwords and locked accounts"},
            {"id": "billing", "description": "Invoices, payments and refunds"},
        ],
    }
}


def example_command(endpoint_name: str, region: str) -> str:
    """Make a line for bash that sends the decision with the AWS CLI and prints the answer."""
    body = shlex.quote(json.dumps(EXAMPLE_REQUEST, ensure_ascii=False))
    return (
        f"aws sagemaker-runtime invoke-endpoint --region {region} --endpoint-name {endpoint_name}"
        f" --content-type application/json --cli-binary-format raw-in-base64-out --body {body} /dev/stdout"
    )
