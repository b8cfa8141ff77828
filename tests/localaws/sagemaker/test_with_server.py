"""SageMaker behind the real server, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from localaws.session import LocalAws

SERVER = """
import http.server, json, os, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(b"")
    def do_POST(self):
        weights = (pathlib.Path(os.environ["MODEL_DIR"]) / "model.gguf").read_text()
        self.reply(json.dumps({"pid": os.getpid(), "weights": weights}).encode())
    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/tiny:1"


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def start_endpoint(aws: LocalAws, script: Path) -> dict[str, Any]:
    """Bring an endpoint up and return its first answer."""
    script.write_text(textwrap.dedent(SERVER))
    s3, sagemaker = aws.client("s3"), aws.client("sagemaker")
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="models/x/model.gguf", Body=b"weights")
    bind = {"port": "PORT", "model_dir": "MODEL_DIR"}
    aws.push_image(IMAGE, command=[sys.executable, str(script)], bind=bind)
    source = {"S3Uri": "s3://models/models/x/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    sagemaker.create_model(
        ModelName="m",
        PrimaryContainer={"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}},
        ExecutionRoleArn="arn:aws:iam::123456789012:role/execution",
    )
    variant = {
        "VariantName": "V",
        "ModelName": "m",
        "InstanceType": "ml.c6i.large",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    waiter = sagemaker.get_waiter("endpoint_in_service")
    waiter.wait(EndpointName="e", WaiterConfig={"Delay": 1, "MaxAttempts": 20})
    answer: dict[str, Any] = json.load(
        aws.client("sagemaker-runtime").invoke_endpoint(EndpointName="e", Body=b"{}")["Body"]
    )
    return answer


def test_no_container_outlives_a_server_that_was_killed(tmp_path: Path) -> None:
    with LocalAws(ready_s=0.1) as aws:
        answer = start_endpoint(aws, tmp_path / "tiny.py")
        assert answer["weights"] == "weights"
        assert is_running(answer["pid"])
        assert aws._process is not None
        os.kill(aws._process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while is_running(answer["pid"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_server_that_is_asked_to_stop_stops_its_containers_first(tmp_path: Path) -> None:
    with LocalAws(ready_s=0.1) as aws:
        pid = start_endpoint(aws, tmp_path / "tiny.py")["pid"]
    assert not is_running(pid)
