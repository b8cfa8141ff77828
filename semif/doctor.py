"""`semif doctor`: gather, judge, print."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semif.assembly import EnvironmentPlan, read_plan, read_templates
from semif.aws import Aws, open_aws
from semif.cdk import Cdk, check_installed, find_cdk
from semif.doctor_api import gather
from semif.doctor_checks import check
from semif.doctor_facts import Facts
from semif.errors import ExitCode, UsageError
from semif.findings import lines, stops, summary

ASSEMBLY: Final = "cdk.out"


@dataclass(frozen=True)
class Prepared:
    """One environment, synthesized: everything that follows works on this one assembly."""

    cdk: Cdk
    aws: Aws
    assembly: Path
    plan: EnvironmentPlan
    profile: str | None = None


def prepare(
    env: str, *, assembly: Path | None, region: str | None, profile: str | None, say: Callable[[str], None]
) -> Prepared:
    """Synthesize unless an assembly is given, and open a session in the environment's region."""
    try:
        found = open_aws(region=region, profile=profile).region
    except UsageError as error:
        # cdk.json may name the region; the synthesis asks for one if it does not.
        if error.code != "no_region":
            raise
        found = None
    cdk = find_cdk(profile=profile, region=found)
    if assembly is None:
        check_installed(cdk)
        assembly = cdk.root / ASSEMBLY
        say(f"cdk synth into {assembly}")
        cdk.synthesize(env, assembly)
    assembly = assembly.resolve()
    plan = read_plan(assembly, env)
    if region is not None and region != plan.region:
        raise UsageError(
            "other_region",
            f"environment {env} is of {plan.region}, not of {region}",
            field="--region",
            next_step="leave --region out, or change region in cdk.json",
        )
    return Prepared(cdk, open_aws(region=plan.region, profile=profile), assembly, plan, profile)


def examine(prepared: Prepared, say: Callable[[str], None]) -> tuple[Facts, ExitCode]:
    """Print every finding; FAILED if one of them stops a deployment."""
    plan = prepared.plan
    facts = gather(prepared.aws, plan, read_templates(prepared.assembly), prepared.cdk.versions())
    findings = check(plan, facts)
    for line in lines(findings):
        say(line)
    say(f"doctor: {summary(findings)} for {plan.name} in {plan.region}")
    return facts, ExitCode.FAILED if stops(findings) else ExitCode.OK
