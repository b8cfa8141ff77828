"""Facts in, findings out: what would stop a deployment, or make it longer or other than expected. Pure."""

from datetime import timedelta
from typing import Final

from semif.assembly import EnvironmentPlan
from semif.doctor_facts import EndpointState, Facts, Session, StackState, Versions
from semif.doctor_quotas import check_quotas
from semif.doctor_sources import check_builds, check_sources
from semif.findings import Finding, Level, Unknown, not_known
from semif.terminal import duration

STACKS_S: Final = 600  # what the artifacts' and the builds' stacks take at most, beside the endpoints
BUILDS_S: Final = 52 * 60  # how long a stack waits for its builds before it gives up
CONCURRENCY: Final = 3  # stacks that are deployed at once
# The CDK CLI deletes such a stack by itself before it makes it again.
REPLACED: Final = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "REVIEW_IN_PROGRESS"})
UNPROTECT: Final = "aws cloudformation update-termination-protection --no-enable-termination-protection"
STEPS: Final = {
    "UPDATE_ROLLBACK_FAILED": ("Finish its rollback", "continue-update-rollback"),
    "DELETE_FAILED": ("Delete it first", "delete-stack"),
    "CREATE_FAILED": ("Delete it first", "delete-stack"),
    "UPDATE_FAILED": ("Roll it back first", "rollback-stack"),
}


def check(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    """Every finding, in the order in which one would set an account up."""
    findings = [*_identity(plan, facts), *_session(plan, facts), *_versions(facts.versions)]
    if isinstance(facts.identity, Unknown):
        return findings
    return [
        *findings,
        *_bootstrap(plan, facts),
        *_stacks(plan, facts),
        *_endpoints(plan, facts),
        *not_known("quotas of instances", facts.quotas, "SageMaker itself will check them"),
        *not_known("instances in use", facts.in_use, "they are counted as none"),
        *check_quotas(plan, facts),
        *check_builds(plan, facts),
        *check_sources(plan, facts),
    ]


def worst_case_s(plan: EnvironmentPlan) -> int:
    """How long a deployment takes at most, in seconds: stacks, builds, then the endpoints, three at once."""
    waves = -(-len(plan.endpoints) // CONCURRENCY)
    longest = max((endpoint.worst_case_s for endpoint in plan.endpoints), default=0)
    return STACKS_S + (BUILDS_S if plan.builds else 0) + waves * longest


def _identity(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    who = facts.identity
    if isinstance(who, Unknown):
        return [
            Finding(
                Level.ERROR,
                "identity",
                f"the credentials reach no account in {plan.region}: {who.reason}",
                "renew them, or enable the region (aws account enable-region --region-name"
                f" {plan.region}); try them by",
                f"aws sts get-caller-identity --region {plan.region}",
            )
        ]
    if plan.account is not None and plan.account != who.account:
        return [
            Finding(
                Level.ERROR,
                "identity",
                f"these are credentials of account {who.account} ({who.arn}), and environment {plan.name} is"
                f" of {plan.account}",
                "Choose a profile of that account",
                f"export AWS_PROFILE=… && aws sts get-caller-identity --region {plan.region}",
            )
        ]
    where = "" if plan.account else ", which cdk.json does not name"
    return [Finding(Level.OK, "identity", f"account {who.account}{where}, {plan.region}, as {who.arn}")]


def _session(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    session, needed_s = facts.session, worst_case_s(plan)
    needed = f"this deployment takes {duration(needed_s)} at most"
    if not session.temporary or session.renewable:
        kind = "renew themselves" if session.temporary else "do not expire"
        return [Finding(Level.OK, "session", f"the credentials {kind}; {needed}")]
    renew = (
        "get longer ones, or let a profile renew them (aws sso login); what CloudFormation has begun goes on"
        f" without them, and is followed by semif watch {plan.name}"
    )
    if session.expires_at is None:
        return [
            Finding(
                Level.WARNING,
                "session",
                "temporary credentials whose end is not known (AWS_CREDENTIAL_EXPIRATION is not set);"
                f" {needed}",
                renew,
            )
        ]
    return [_session_left(session, facts, needed_s, needed, renew)]


def _session_left(session: Session, facts: Facts, needed_s: int, needed: str, renew: str) -> Finding:
    left = (session.expires_at or facts.now) - facts.now
    fact = f"the credentials end in {duration(left.total_seconds())}; {needed}"
    if left <= timedelta(0):
        return Finding(Level.ERROR, "session", "the credentials have expired", renew)
    return Finding(Level.WARNING, "session", fact, renew) if left.total_seconds() < needed_s else (
        Finding(Level.OK, "session", fact)
    )  # fmt: skip


def _versions(versions: Versions) -> list[Finding]:
    if not versions.cdk:
        cdk = Finding(Level.ERROR, "CDK CLI", "is not installed", "Install it", "make setup")
    elif versions.cdk_wanted and versions.cdk != versions.cdk_wanted:
        fact = f"is {versions.cdk}, and package.json pins {versions.cdk_wanted}"
        cdk = Finding(Level.WARNING, "CDK CLI", fact, "Install that one", "make setup")
    else:
        cdk = Finding(Level.OK, "CDK CLI", f"is {versions.cdk}")
    major = versions.node.removeprefix("v").partition(".")[0]
    if not major.isdecimal():
        node = Finding(Level.ERROR, "Node", "does not start", "Install it", "make setup")
    elif int(major) < versions.node_at_least:
        fact = f"is {versions.node}, and the CDK CLI needs {versions.node_at_least} or newer"
        node = Finding(Level.ERROR, "Node", fact, "Install it", "make setup")
    else:
        node = Finding(Level.OK, "Node", f"is {versions.node}")
    return [cdk, node]


def _bootstrap(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    version = facts.bootstrap
    if isinstance(version, Unknown):
        return not_known("the CDK's bootstrap", version)
    account = facts.identity.account if not isinstance(facts.identity, Unknown) else plan.account
    command = f"node_modules/.bin/cdk bootstrap aws://{account}/{plan.region}"
    if version == 0:
        fact = f"{plan.region} is not bootstrapped (no parameter /cdk-bootstrap/hnb659fds/version)"
        return [Finding(Level.ERROR, "CDK bootstrap", fact, "Once per account and region", command)]
    if version < plan.bootstrap_version:
        fact = f"is version {version}, and the stacks need {plan.bootstrap_version}"
        return [Finding(Level.ERROR, "CDK bootstrap", fact, "Bring it up to date", command)]
    return [Finding(Level.OK, "CDK bootstrap", f"is version {version}")]


def _stacks(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    if isinstance(facts.stacks, Unknown):
        return not_known("the stacks", facts.stacks)
    found = [
        finding
        for name in plan.stacks
        if (state := facts.stacks.get(name)) is not None
        for finding in _stack(plan, name, state)
    ]
    there = sum(name in facts.stacks for name in plan.stacks)
    if not any(finding.level is Level.ERROR for finding in found):
        found.append(Finding(Level.OK, "stacks", f"{there} of {len(plan.stacks)} exist, none in the way"))
    return found


def _stack(plan: EnvironmentPlan, name: str, state: StackState) -> list[Finding]:
    status, at = state.status, f"--stack-name {name} --region {plan.region}"
    if status in REPLACED:
        if state.protected:
            return [
                Finding(
                    Level.ERROR,
                    name,
                    f"is {status} and protected from deletion, so that it cannot be made again",
                    "Lift the protection",
                    f"{UNPROTECT} {at}",
                )
            ]
        return [Finding(Level.NOTE, name, f"is {status}; the deployment makes it anew")]
    if status.endswith("_IN_PROGRESS"):
        return [
            Finding(Level.ERROR, name, f"is {status}", "Follow it to its end", f"semif watch {plan.name}")
        ]
    if status in STEPS:
        step, verb = STEPS[status]
        return [Finding(Level.ERROR, name, f"is {status}", step, f"aws cloudformation {verb} {at}")]
    if state.protected or plan.protect:
        more = (
            "protected from deletion" if state.protected else "and the deployment protects it from deletion"
        )
        return [Finding(Level.OK, name, f"is {status}, {more}")]
    return []


def _endpoints(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    findings = []
    for endpoint in plan.endpoints:
        state = facts.endpoints.get(endpoint.key)
        if isinstance(state, Unknown):
            findings += not_known(f"endpoint {endpoint.name}", state)
        if not isinstance(state, EndpointState) or isinstance(facts.stacks, Unknown):
            continue
        stack = facts.stacks.get(endpoint.stack)
        if stack is not None and state.stack_id == stack.id:
            continue
        owner = f"of {state.stack_id}" if state.stack_id else "that no stack of this project made"
        findings.append(
            Finding(
                Level.ERROR,
                endpoint.name,
                f"an endpoint of this name exists, {state.status}, {owner}, so {endpoint.stack} cannot make"
                " its own",
                f'Set another "name" in endpoints.{endpoint.key} of cdk.json, or delete that one',
                f"aws sagemaker delete-endpoint --endpoint-name {endpoint.name} --region {plan.region}",
            )
        )
    return findings
