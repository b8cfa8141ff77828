"""Hosting with real processes, driven by boto3."""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(condition: Any, limit_s: float = 10) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def put_prefix(lab: Any, prefix: str = "models/x/", **files: str) -> dict[str, Any]:
    for name, text in files.items():
        lab.client("s3").put_object(Bucket=lab.bucket, Key=f"{prefix}{name}", Body=text)
    source = {"S3Uri": f"s3://{lab.bucket}/{prefix}", "S3DataType": "S3Prefix", "CompressionType": "None"}
    return {"ModelDataSource": {"S3DataSource": source}}


def test_endpoint_serves_the_model_data_in_the_image_s_process(lab: Any) -> None:
    data = put_prefix(lab, **{"model.gguf": "weights", "sub/profile.json": "{}"})
    lab.model(environment={"KNOB": "7", "GGUF": "/opt/ml/model/model.gguf", "NOT": "/opt/ml/models"}, **data)
    lab.config()

    described = lab.endpoint()

    assert described["EndpointStatus"] == "InService", described
    report = lab.report()
    assert report["argv"] == ["serve"]
    assert report["files"] == {"model.gguf": "weights", "sub/profile.json": "{}"}
    assert report["modes"] == ["0o444"]
    model_dir = report["environment"]["MODEL_DIR"]
    assert report["environment"]["GGUF"] == f"{model_dir}/model.gguf"
    assert report["environment"]["NOT"] == "/opt/ml/models"
    assert report["environment"]["KNOB"] == "7"
