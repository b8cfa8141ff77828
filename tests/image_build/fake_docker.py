"""A `docker` that keeps the real protocol on a folder: images with real configurations and manifests.

It pushes to the ECR that AWS_ENDPOINT_URL names. Standard library only, so that it starts in no time.
FAKE_DOCKER is its folder: `remote.json` (images that other registries hold), `behaviour.json`, and what it
writes: `calls` (one command a line), `logins`, `images.json`.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

DOCKER_V2 = "application/vnd.docker.distribution.manifest.v2+json"
ECR_HOST = re.compile(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com")
BUILD_FLAGS = {"--platform": "linux/amd64", "--output": "type=docker"}


class Folder:
    """What the daemon holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.behaviour: dict[str, Any] = self._read("behaviour.json")
        self.remote: dict[str, Any] = self._read("remote.json")
        self.images: dict[str, Any] = self._read("images.json")

    def _read(self, name: str) -> dict[str, Any]:
        file = self.path / name
        return json.loads(file.read_text()) if file.exists() else {}

    def note(self, name: str, line: str) -> None:
        with (self.path / name).open("a") as stream:
            stream.write(line + "\n")

    def noted(self, name: str) -> list[str]:
        file = self.path / name
        return file.read_text().splitlines() if file.exists() else []

    def keep(self, reference: str, image: dict[str, Any]) -> None:
        self.images[reference] = image
        (self.path / "images.json").write_text(json.dumps(self.images))

    def check_login(self, reference: str) -> None:
        host = reference.partition("/")[0]
        if ECR_HOST.fullmatch(host) and host not in self.noted("logins"):
            fail(f"no basic auth credentials for {host}")


def fail(text: str, code: int = 1) -> None:
    sys.stderr.write(text + "\n")
    sys.exit(code)


def layer(seed: str, size_bytes: int, claimed_bytes: int | None = None) -> dict[str, Any]:
    """A layer as manifests and configurations name it; `claimed_bytes` instead of its compressed size."""
    content = random.Random(seed).randbytes(size_bytes)  # noqa: S311 - no secret
    blob = gzip.compress(content, compresslevel=1, mtime=0)
    return {
        "diff_id": "sha256:" + hashlib.sha256(content).hexdigest(),
        "digest": "sha256:" + hashlib.sha256(blob).hexdigest(),
        "size": claimed_bytes or len(blob),
        "unpacked": claimed_bytes or size_bytes,
    }


def login(folder: Folder, arguments: list[str]) -> None:
    flags, host = arguments[:-1], arguments[-1]
    if flags != ["--username", "AWS", "--password-stdin"] or not sys.stdin.read().endswith("-auth-token"):
        fail("Error response from daemon: login attempt failed with status: 400 Bad Request")
    folder.note("logins", host)
    sys.stdout.write("Login Succeeded\n")


def inspect(folder: Folder, arguments: list[str]) -> None:
    what, flag, template, reference = arguments
    if (what, flag, template) != ("inspect", "--format", "{{json .}}"):
        fail(f"unknown flags {arguments}", 125)
    if reference not in folder.images:
        fail(f"Error response from daemon: No such image: {reference}")
    layers = folder.images[reference]["layers"]
    document = {
        "Id": folder.images[reference].get("id", ""),
        "Architecture": folder.behaviour.get("architecture", "amd64"),
        "Os": "linux",
        "Size": sum(entry["unpacked"] for entry in layers),
        "RootFS": {"Type": "layers", "Layers": [entry["diff_id"] for entry in layers]},
    }
    sys.stdout.write(json.dumps(document) + "\n")


def pull(folder: Folder, arguments: list[str]) -> None:
    flag, platform, reference = arguments
    folder.check_login(reference)
    if (flag, platform) != ("--platform", "linux/amd64") or reference not in folder.remote:
        fail(f"Error response from daemon: manifest for {reference} not found: manifest unknown")
    folder.keep(reference, folder.remote[reference])


def build(folder: Folder, arguments: list[str]) -> None:
    options: dict[str, str] = {}
    build_args: dict[str, str] = {}
    rest = iter(arguments[:-1])
    for flag in rest:
        if flag in {"--provenance=false", "--sbom=false"}:
            options[flag] = ""
        elif flag == "--build-arg":
            name, _, value = next(rest).partition("=")
            build_args[name] = value
        elif flag in {"--platform", "--output", "-f", "-t"}:
            options[flag] = next(rest)
        else:
            fail(f"unknown flag: {flag}", 125)
    if (
        arguments[-1] != "."
        or not Path(options["-f"]).is_file()
        or not BUILD_FLAGS.items() <= options.items()
    ):
        fail("ERROR: failed to build: no such context, Dockerfile or platform")
    sys.stdout.write("#1 [internal] load build definition\n")
    sys.stdout.flush()
    if folder.behaviour.get("hangs_at") == "build":
        hang(folder)
    base = build_args["BASE_IMAGE"]
    folder.check_login(base)
    if base not in folder.remote:
        fail(f"ERROR: failed to solve: {base}: not found")
    for number, line in enumerate(folder.behaviour.get("build_lines", ["self-test passed"]), 2):
        sys.stdout.write(f"#{number} 0.{number} {line}\n")
    if code := folder.behaviour.get("build_exit", 0):
        sys.exit(code)
    seed = folder.behaviour.get("seed", options["-t"])
    added = [layer(f"{seed} a", 500), layer(f"{seed} b", 2000, folder.behaviour.get("layer_bytes"))]
    layers = [*folder.remote[base]["layers"], *added]
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/opt/semif/start"]},
            "rootfs": {"type": "layers", "diff_ids": [entry["diff_id"] for entry in layers]},
        }
    )
    identity = "sha256:" + hashlib.sha256(configuration.encode()).hexdigest()
    folder.keep(options["-t"], {"id": identity, "layers": layers, "config_bytes": len(configuration)})


def run(folder: Folder, arguments: list[str]) -> None:
    flags, reference, path = arguments[:-2], arguments[-2], arguments[-1]
    if flags != ["--rm", "--read-only", "--entrypoint", "cat"] or reference not in folder.images:
        fail("docker: Error response from daemon: unknown", 125)
    sbom = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "numpy"}]}
    text = folder.behaviour.get("sbom", json.dumps(sbom))
    if path != "/opt/semif/sbom.cdx.json" or text is None:
        fail(f"cat: {path}: No such file or directory")
    sys.stdout.write(text)


def push(folder: Folder, arguments: list[str]) -> None:
    (reference,) = arguments
    folder.check_login(reference)
    name, _, tag = reference.rpartition(":")
    image = folder.images[reference]
    config = {
        "mediaType": "application/vnd.docker.container.image.v1+json",
        "size": image["config_bytes"],
        "digest": image["id"],
    }
    layers = [
        {
            "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
            "size": entry["size"],
            "digest": entry["digest"],
        }
        for entry in image["layers"]
    ]
    media_type = folder.behaviour.get("media_type", DOCKER_V2)
    document = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers}
    text = json.dumps(document, indent=3)
    host, _, repository = name.partition("/")
    region = host.split(".")[3]
    digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    put = {"repositoryName": repository, "imageManifest": text, "imageTag": tag, "imageDigest": digest}
    ecr(region, "PutImage", put)
    if folder.behaviour.get("scan_on_push", True):
        ecr(region, "StartImageScan", {"repositoryName": repository, "imageId": {"imageDigest": digest}})
    if len([call for call in folder.noted("calls") if call.startswith("push")]) <= folder.behaviour.get(
        "pushes_cut_off", 0
    ):
        fail("unexpected EOF")
    sys.stdout.write(f"{tag}: digest: {digest} size: {len(text)}\n")


def ecr(region: str, operation: str, parameters: dict[str, Any]) -> None:
    credential = f"Credential=local/20260101/{region}/ecr/aws4_request"
    headers = {
        "X-Amz-Target": f"AmazonEC2ContainerRegistry_V20150921.{operation}",
        "Content-Type": "application/x-amz-json-1.1",
        "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0",
    }
    request = urllib.request.Request(  # noqa: S310 - our own URL
        os.environ["AWS_ENDPOINT_URL"], json.dumps(parameters).encode(), headers
    )
    try:
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        # A second scan of the same layers on one day is refused, and a push does not mind.
        if "LimitExceeded" not in text:
            fail(f"tag invalid or repository not there: {text}")


def hang(folder: Folder) -> None:
    def end(number: int, _frame: FrameType | None) -> None:
        folder.note("signals", signal.Signals(number).name)
        sys.exit(130)

    signal.signal(signal.SIGTERM, end)
    sys.stdout.write("#2 waiting\n")
    sys.stdout.flush()
    time.sleep(60)


COMMANDS = {"login": login, "image": inspect, "pull": pull, "build": build, "run": run, "push": push}


def main(arguments: Sequence[str]) -> None:
    folder = Folder(Path(os.environ["FAKE_DOCKER"]))
    folder.note("calls", " ".join(arguments))
    COMMANDS[arguments[0]](folder, list(arguments[1:]))


def call(arguments: Sequence[str], stdin: str) -> tuple[int, str, str]:
    """Run a command in this process; return the exit code and both outputs."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as ending:
        return int(ending.code or 0), out.getvalue(), err.getvalue()
    finally:
        sys.stdin = before
    return 0, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
