"""`semif deploy`: doctor, one diff, one question, then `cdk deploy` with the watch inside."""

from collections.abc import Callable
from typing import Final

from semif.aws import open_aws
from semif.deployment import Snapshot
from semif.deployment_api import DeploymentReader
from semif.doctor import Prepared, examine
from semif.doctor_facts import Identity
from semif.errors import CredentialsExpiredError, ExitCode
from semif.progress import Progress
from semif.rollout import Rollout, follow_rollout, interrupted

CONCURRENCY: Final = 3
WAIT_S: Final = 2 * 3600.0  # the end of the CLI counts


def deploy(
    prepared: Prepared, *, ask: Callable[[str], bool], say: Callable[[str], None], despite_errors: bool
) -> int:
    """Deploy; returns the exit code. `ask` puts the one question."""
    plan, cdk = prepared.plan, prepared.cdk
    facts, health = examine(prepared, say)
    if health is not ExitCode.OK and not despite_errors:
        say("nothing was deployed: mend what the errors name, or add --despite-errors if they are wrong")
        return health
    selection = f"{plan.name}/*"
    say(f"cdk diff '{selection}'")
    cdk.run("diff", selection, "--app", str(prepared.assembly))
    account = facts.identity.account if isinstance(facts.identity, Identity) else "these credentials' account"
    if not ask(f"Deploy {plan.name} to {account} in {plan.region}?"):
        say("nothing was deployed")
        return ExitCode.FAILED
    arguments = ["deploy", selection, "--app", str(prepared.assembly)]
    arguments += ["--concurrency", str(CONCURRENCY), "--require-approval", "never"]
    return run_followed(prepared, "cdk deploy", arguments, say)


def run_followed(prepared: Prepared, name: str, arguments: list[str], say: Callable[[str], None]) -> int:
    """Run the CLI, telling what CloudFormation and SageMaker do meanwhile; returns its exit code."""
    plan = prepared.plan
    reader = DeploymentReader(prepared.aws, plan.name, stacks=plan.stacks)
    progress = Progress(plan.name, plan.region, wait_s=WAIT_S)
    log = prepared.assembly / f"{arguments[0]}.log"
    rollout = Rollout(name, prepared.cdk.start(arguments, log), log)

    def read() -> Snapshot:
        try:
            return reader.read()
        except CredentialsExpiredError:
            # They may have been renewed in another terminal; the next look uses those.
            reader.connect(open_aws(region=plan.region, profile=prepared.profile))
            raise

    try:
        say(f"{name} runs; its output goes to {log}")
        return follow_rollout(rollout, progress, read, say)
    except KeyboardInterrupt:
        return interrupted(rollout, plan.name, say)
