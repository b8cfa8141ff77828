"""`make demo`: a real deployment on the local AWS, past two types that cannot be had, to a real decision.

The CDK CLI, the custom resource's functions, the walk, the model's archive, the server and the boto3 client
are the real ones; only AWS itself is local (localaws), and the fleet is a process on this machine.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from localaws.session import LocalAws
from semif.attempts import Attempt
from semif.decide import read_answers, table
from semif.walk_api import walk_attempts
from stacks.example_decision import EXAMPLE_REQUEST
from tools.local_environment import DeploymentError, LocalEnvironment, Pool

ENVIRONMENT: Final = "dev"
POOL: Final = Pool(("ml.c7i.2xlarge", "ml.c6i.2xlarge", "ml.m5.2xlarge"))
FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ml.c7i.2xlarge": {"mode": "capacity", "seconds": 4},
    "ml.c6i.2xlarge": {"mode": "quota"},
}


class Narrator:
    """Prints progress lines with the seconds since the start."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Print `text` at once, each line with the time."""
        with self._lock:
            for line in text.splitlines() or [""]:
                print(f"{time.monotonic() - self._begun:6.1f} s  {line}", flush=True)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Say what begins, and how long it took when it is done."""
        self.say(title)
        begun = time.monotonic()
        yield
        self.say(f"  done in {time.monotonic() - begun:.1f} s")


@contextmanager
def watched(aws: LocalAws, say: Narrator) -> Iterator[None]:
    """Run `semif watch` beside a deployment, as an operator would in another terminal."""
    watch = subprocess.Popen(
        [sys.executable, "-m", "semif", "watch", ENVIRONMENT, "--interval", "0.5", "--region", aws.region],
        env=aws.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def relay() -> None:
        for line in watch.stdout or ():
            say.say(f"  watch | {line.rstrip()}")

    relayed = threading.Thread(target=relay, daemon=True)
    relayed.start()
    try:
        yield
        watch.wait(timeout=15)
    finally:
        if watch.poll() is None:
            watch.terminate()
            watch.wait()
        relayed.join(timeout=5)


def walk_table(attempts: list[Attempt]) -> str:
    """The walk: one line per instance type, with what came of it, after how long, and why."""
    lines = [f"{'instance type':<16}{'outcome':<12}{'seconds':>7}  reason"]
    for attempt in attempts:
        seconds = "" if attempt.seconds is None else f"{attempt.seconds:.0f}"
        lines.append(f"{attempt.instance_type:<16}{attempt.outcome:<12}{seconds:>7}  {attempt.reason or '-'}")
    return "\n".join(lines)


def run(aws: LocalAws, say: Narrator, folder: Path, *, keep: bool) -> None:
    """Deploy, decide, destroy."""
    environment = LocalEnvironment(aws, ENVIRONMENT, folder)
    aws.put_faults(FAULTS)
    with say.step("cdk synth"):
        environment.synthesize(POOL)
    with say.step("cdk bootstrap, cdk deploy dev/artifacts, upload of the model (98 MB) and the image"):
        environment.deploy_artifacts(POOL)
    with say.step("cdk deploy dev/decisions: " + " → ".join(POOL.instance_types)), watched(aws, say):
        result = environment.deploy(POOL)
    if result.returncode != 0:
        raise DeploymentError(f"cdk deploy failed:\n{result.output[-4000:]}")
    outputs = environment.outputs("decisions")
    say.say("the walk, as SageMaker's tags record it:")
    say.say(walk_table(walk_attempts(aws.client("sagemaker"), outputs["EndpointName"])))
    say.say(f"boto3 invoke_endpoint on {outputs['EndpointName']} ({outputs['InstanceType']}):")
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=outputs["EndpointName"], ContentType="application/json", Body=json.dumps(EXAMPLE_REQUEST)
    )
    body = answer["Body"].read()
    say.say(table(read_answers(body), width=72))
    result_fields = json.loads(body)["result"]
    say.say(
        f"sum of probabilities {sum(result_fields['probabilities']):.9f}, "
        f"{result_fields['input_tokens']} tokens, {result_fields['forward_seconds']:.3f} s, "
        f"model {result_fields['model']['gguf']['file']}"
    )
    if keep:
        keep_up(aws, say)
    with say.step("cdk destroy 'dev/*' (the bucket and the repository are retained, as on AWS)"):
        environment.destroy(POOL)


def keep_up(aws: LocalAws, say: Narrator) -> None:
    """Leave the endpoint up until Ctrl-C, and say how to reach it."""
    say.say("it stays up; in another terminal:")
    keys = (
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    )
    for key in keys:
        say.say(f"  export {key}={aws.environment[key]}")
    say.say("  .venv/bin/semif decide --env dev --state 'My card was charged twice.' \\")
    say.say("    --question 'Which queue?' --option account='Account access' --option billing='Billing'")
    say.say("Ctrl-C destroys it")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave the endpoint up until Ctrl-C (make demo KEEP=1)"
    )
    arguments = parser.parse_args()
    say = Narrator()
    try:
        say.say("starting the local AWS")
        with tempfile.TemporaryDirectory() as folder, LocalAws() as aws:
            run(aws, say, Path(folder), keep=arguments.keep)
    except DeploymentError as error:
        say.say(f"FAILED: {error}")
        return 1
    except KeyboardInterrupt:
        say.say("interrupted: the local AWS and all in it is gone")
        return 130
    say.say("demo complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
