"""`semif token`: the key that an OpenAI client needs for an endpoint."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from semif.aws import aws_errors, open_aws
from semif.bearer_token import LONGEST_S, Keys, bearer_token
from semif.console import Profile, Region, exits, write
from semif.errors import ServiceError


def token(
    *,
    region: Region = None,
    profile: Profile = None,
    lifetime: Annotated[
        int, typer.Option(min=1, max=LONGEST_S, help="Seconds; it ends with the credentials at the latest.")
    ] = 3600,
) -> None:
    """Print a bearer token for https://runtime.sagemaker.REGION.amazonaws.com/endpoints/NAME/openai/v1.

    It is a secret: it does what the credentials may do. Nothing is called to make it.

    Exit codes: 0 printed, 2 usage, 5 no credentials.
    """
    with exits():
        aws = open_aws(region=region, profile=profile)
        with aws_errors("credentials"):
            found = aws.session.get_credentials()
            if found is None:
                raise ServiceError(
                    "no_credentials",
                    "credentials: none were found",
                    next_step="give --profile, or set up credentials for the AWS CLI",
                )
            keys = found.get_frozen_credentials()
        signer = Keys(keys.access_key or "", keys.secret_key or "", keys.token)
        write(bearer_token(signer, aws.region, datetime.now(UTC), lifetime))
