"""`make demo`: both endpoints on the local AWS, past types that cannot be had, to a decision and a chat.

The CDK CLI, the custom resource's functions, the walk, the model's archive, both servers and the boto3 client
are the real ones; only AWS itself is local (localaws), and a fleet is a process on this machine.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from localaws.session import CdkResult, LocalAws
from semif.attempts import Attempt
from semif.decide import read_answers, table
from semif.walk_api import walk_attempts
from stacks.example_decision import EXAMPLE_REQUEST
from tests.standins.storage import NOT_PROVEN, ImageError, has_buildah
from tools.local_environment import (
    DeploymentError,
    LocalEnvironment,
    Settings,
    bootstrap,
    built_sources,
    decisions,
    ready_sources,
    small_hub,
)

ENVIRONMENT: Final = "dev"
POOL: Final = ("ml.c7i.2xlarge", "ml.c6i.2xlarge", "ml.m5.2xlarge")
BOTH: Final[Settings] = {
    "endpoints": {
        # One round, in which SageMaker itself goes past a type without capacity.
        "decisions": {"pool": list(POOL)},
        # Type by type: the walk goes on when SageMaker gives up. A second failure would not fit the hour.
        "standard": {
            "engine": "llama-cpp",
            "pool": [POOL[0], POOL[2]],
            "pool_strategy": "serial",
            "context_tokens": 2048,
            "download_timeout_s": 300,
            "startup_timeout_s": 300,
        },
    }
}
BUILT: Final = decisions(*POOL)
FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"ml.c7i.2xlarge": {"mode": "capacity", "seconds": 4}}
QUOTAS: Final = {"ml.c7i.2xlarge": 2, "ml.c6i.2xlarge": 0, "ml.m5.2xlarge": 4}
CHAT: Final[dict[str, Any]] = {
    "messages": [{"role": "user", "content": "What is a credit card? Answer in one sentence."}],
    "max_tokens": 32,
    "temperature": 0,
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
        [
            sys.executable,
            "-m",
            "semif",
            "watch",
            ENVIRONMENT,
            "--interval",
            "0.5",
            "--settle",
            "2",
            "--region",
            aws.region,
        ],
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
        watch.wait(timeout=60)
    finally:
        if watch.poll() is None:
            watch.terminate()
            watch.wait()
        relayed.join(timeout=5)


def walk_table(attempts: list[Attempt]) -> str:
    """The walk: one line per attempt, with what came of it, after how long, and why."""
    lines = [f"{'instance types':<32}{'outcome':<12}{'seconds':>7}  reason"]
    for attempt in attempts:
        seconds = "" if attempt.seconds is None else f"{attempt.seconds:.0f}"
        lines.append(f"{attempt.instance_type:<32}{attempt.outcome:<12}{seconds:>7}  {attempt.reason or '-'}")
        lines += [f"  skipped {skipped}" for skipped in attempt.skipped]
    return "\n".join(lines)


def run(aws: LocalAws, say: Narrator, folder: Path, *, keep: bool) -> None:
    """Deploy both endpoints on a model and images that are there already, ask both, destroy."""
    environment = LocalEnvironment(aws, ENVIRONMENT, folder, ready_sources(aws))
    aws.put_faults(FAULTS)
    aws.put_quotas(QUOTAS)
    with say.step("cdk synth, cdk bootstrap"), ThreadPoolExecutor() as pool:
        bootstrapped = pool.submit(bootstrap, aws)
        environment.synthesize(BOTH)
        bootstrapped.result()
    say.say("what it may cost, as synth says:")
    for line in environment.annotations(BOTH):
        say.say(f"  {line}")
    with say.step("cdk deploy 'dev/*' --concurrency 3: " + " → ".join(POOL)), watched(aws, say):
        _succeeded(environment.deploy(BOTH, "*", "--concurrency", "3"))
    decision, standard = (environment.outputs(endpoint) for endpoint in ("decisions", "standard"))
    for outputs in (decision, standard):
        say.say(f"the walk of {outputs['EndpointName']}, as SageMaker's tags record it:")
        say.say(walk_table(walk_attempts(aws.client("sagemaker"), outputs["EndpointName"])))
        say.say(f"  in words: {outputs['Attempts']}")
    decide(aws, say, decision)
    chat(aws, say, standard)
    if keep:
        keep_up(aws, say)
    with say.step("cdk destroy 'dev/*' (the bucket and the repository are retained, as on AWS)"):
        environment.destroy(BOTH)


def run_full(aws: LocalAws, say: Narrator, folder: Path, *, keep: bool) -> None:
    """Let the deployment build archive and image, decide, deploy again without a change, destroy."""
    with say.step("the images to build on (stand-ins for AWS's container), and a hub with the model"):
        (folder / "hub").mkdir()
        hub = small_hub(folder / "hub")
        sources = built_sources(hub)
        if not has_buildah():
            say.say(NOT_PROVEN)
    with hub:
        environment = LocalEnvironment(aws, ENVIRONMENT, folder, sources)
        with say.step("cdk synth, cdk bootstrap"):
            bootstrap(aws)
            environment.synthesize(BUILT)
        with say.step("cdk deploy 'dev/*': builds what is missing, then the endpoint"), watched(aws, say):
            _succeeded(environment.deploy(BUILT))
        outputs = environment.outputs("decisions")
        say.say(f"the endpoint runs {outputs['ImageUri']}")
        say.say(f"on {outputs['ModelUri']}")
        decide(aws, say, outputs)
        before = builds(aws)
        with say.step("cdk deploy 'dev/*' again, without a change"):
            _succeeded(environment.deploy(BUILT))
        again = len(builds(aws)) - len(before)
        say.say(f"builds started: {len(before)} by the first deployment, {again} by the second")
        if keep:
            keep_up(aws, say)
        with say.step("cdk destroy 'dev/*' (bucket, repository and what was built in them stay, as on AWS)"):
            environment.destroy(BUILT)


def builds(aws: LocalAws) -> list[str]:
    """The ids of all builds that CodeBuild knows."""
    ids: list[str] = aws.client("codebuild").list_builds()["ids"]
    return ids


def decide(aws: LocalAws, say: Narrator, outputs: Mapping[str, str]) -> None:
    """Ask the endpoint with boto3 and print what it answers."""
    say.say(f"boto3 invoke_endpoint on {outputs['EndpointName']} ({outputs['InstanceType']}):")
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=outputs["EndpointName"], ContentType="application/json", Body=json.dumps(EXAMPLE_REQUEST)
    )
    body = answer["Body"].read()
    say.say(table(read_answers(body), width=72))
    result = json.loads(body)["result"]
    say.say(
        f"sum of probabilities {sum(result['probabilities']):.9f}, {result['input_tokens']} tokens, "
        f"{result['forward_seconds']:.3f} s, model {result['model']['gguf']['file']}"
    )


def chat(aws: LocalAws, say: Narrator, outputs: Mapping[str, str]) -> None:
    """Ask the standard endpoint with boto3 and print what it answers."""
    say.say(f"boto3 invoke_endpoint on {outputs['EndpointName']} ({outputs['InstanceType']}):")
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=outputs["EndpointName"], ContentType="application/json", Body=json.dumps(CHAT)
    )
    completion = json.loads(answer["Body"].read())
    say.say(f"  user: {CHAT['messages'][0]['content']}")
    say.say(f"  assistant: {completion['choices'][0]['message']['content'].strip()}")
    usage = completion["usage"]
    say.say(f"  {usage['prompt_tokens']} tokens in, {usage['completion_tokens']} out")


def _succeeded(result: CdkResult) -> None:
    if result.returncode != 0:
        raise DeploymentError(f"cdk deploy failed:\n{result.output[-4000:]}")


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
    parser.add_argument(
        "--full", action="store_true", help="build archive and image in the deployment (make demo FULL=1)"
    )
    arguments = parser.parse_args()
    say = Narrator()
    try:
        say.say("starting the local AWS")
        with tempfile.TemporaryDirectory() as folder, LocalAws() as aws:
            (run_full if arguments.full else run)(aws, say, Path(folder), keep=arguments.keep)
    except (DeploymentError, ImageError) as error:
        say.say(f"FAILED: {error}")
        return 1
    except KeyboardInterrupt:
        say.say("interrupted: the local AWS and all in it is gone")
        return 130
    say.say("demo complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
