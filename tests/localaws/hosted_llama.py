"""The stand-in for AWS's llama.cpp container with the small model, in service on a local AWS."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from localaws.session import LocalAws
from tools.setup import MODEL_FILE, MODELS

DLC: Final = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/llama-cpp@sha256:{'1f' * 32}"
PREFIX: Final = "small/model/"


def put_model(aws: LocalAws, bucket: str) -> str:
    """The small model in a bucket; returns the prefix's URI."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.upload_file(str(MODELS / MODEL_FILE), bucket, f"{PREFIX}{MODEL_FILE}")
    return f"s3://{bucket}/{PREFIX}"


def create_endpoint(
    aws: LocalAws, name: str, data: str | None, environment: Mapping[str, str], *, startup_s: int = 600
) -> None:
    """An endpoint on the container; the model is whatever `environment` says."""
    container: dict[str, Any] = {"Image": aws.push_llama_cpp_container(DLC), "Environment": dict(environment)}
    if data is not None:
        source = {"S3Uri": data, "S3DataType": "S3Prefix", "CompressionType": "None"}
        container["ModelDataSource"] = {"S3DataSource": source}
    sagemaker = aws.client("sagemaker")
    role = "arn:aws:iam::123456789012:role/execution"
    sagemaker.create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=role)
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InstanceType": "ml.c6i.2xlarge",
        "InitialInstanceCount": 1,
        "ContainerStartupHealthCheckTimeoutInSeconds": startup_s,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


def wait_in_service(aws: LocalAws, name: str) -> None:
    waiter = aws.client("sagemaker").get_waiter("endpoint_in_service")
    waiter.wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 180})


def bearer_token(
    credentials: Mapping[str, str], region: str = "us-east-1", expires_s: int = 3600, **changed: str
) -> str:
    """A token as AWS's own SDK makes it; `changed` replaces the service or the action."""
    keys = Credentials(
        credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials.get("SessionToken")
    )
    request = AWSRequest(
        "POST",
        "https://sagemaker.amazonaws.com/",
        {"host": "sagemaker.amazonaws.com"},
        params={"Action": changed.get("action", "CallWithBearerToken")},
    )
    SigV4QueryAuth(keys, changed.get("service", "sagemaker"), region, expires=expires_s).add_auth(request)
    presigned = str(request.url).removeprefix("https://") + "&Version=1"
    return "sagemaker-api-key-" + base64.b64encode(presigned.encode()).decode()


def model_path() -> Path:
    """The small model on this machine."""
    return MODELS / MODEL_FILE
