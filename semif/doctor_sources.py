"""What builds need from outside: machines of CodeBuild, the model's source, the Hub's token. Pure."""

from collections import Counter

from semif.assembly import EnvironmentPlan, ModelPlan
from semif.doctor_facts import Facts, Source
from semif.findings import Finding, Level, Unknown, not_known


def check_builds(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    """The builds' machines against their quotas: with too few, one waits for the other."""
    if not plan.builds:
        return []
    if isinstance(facts.build_quotas, Unknown):
        return not_known("quotas of builds", facts.build_quotas, "CodeBuild itself will check them")
    findings = []
    for compute_type, count in Counter(facts.compute_types.get(name, "") for name in plan.builds).items():
        quota = facts.build_quotas.get(compute_type)
        if quota is None:
            continue
        ask = (
            f"Ask for {count}",
            "aws service-quotas request-service-quota-increase --service-code codebuild"
            f" --quota-code {quota.code} --desired-value {count} --region {plan.region}",
        )
        fact = f'quota "{quota.name}" is {quota.value:g}, {count} wanted at once'
        if quota.value < 1:
            findings.append(Finding(Level.ERROR, "builds", f"{fact}: none can run", *ask))
        elif quota.value < count:
            findings.append(
                Finding(Level.WARNING, "builds", f"{fact}: one waits for the other and takes longer", *ask)
            )
        else:
            findings.append(Finding(Level.OK, "builds", fact))
    return findings


def check_sources(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    """Whether each model is where it is said to be, and the token with it."""
    secrets = dict.fromkeys(model.token_secret for model in plan.models if model.token_secret)
    return [
        *(
            finding
            for name in secrets
            for finding in _secret(name, plan.region, exists=facts.secrets.get(name))
        ),
        *(
            finding
            for model in plan.models
            for finding in _source(model, plan.region, facts.sources.get(model.address))
        ),
    ]


def _source(model: ModelPlan, region: str, source: Source | Unknown | None) -> list[Finding]:
    if source is None or isinstance(source, Unknown):
        return not_known(f"the model's source {model.address}", source)
    subject = f"model {model.address}"
    match source.state:
        case "reachable":
            found = Finding(Level.OK, subject, f"is there{f' ({source.detail})' if source.detail else ''}")
        case "elsewhere":
            found = Finding(
                Level.ERROR,
                subject,
                f"its bucket is in {source.detail}, and SageMaker reads models from {region} only",
                "Copy it",
                f"aws s3 cp --recursive {model.address} s3://A-BUCKET-IN-{region}/…/",
            )
        case "closed" if model.token_secret:
            fact = f"answers {source.detail} without a token; the build has that of {model.token_secret}"
            found = Finding(Level.OK, subject, fact)
        case "closed":
            found = Finding(
                Level.ERROR,
                subject,
                f"answers {source.detail}: it is gated or private",
                "Put a token that may read it into a secret, and the secret's name into model.token_secret",
                _make_secret("hf-token", region),
            )
        case "missing":
            fact = f"is not there ({source.detail})"
            found = Finding(Level.ERROR, subject, fact, "correct model in cdk.json")
        case "unreachable":
            fact = f"cannot be reached from here ({source.detail}); the build may reach it"
            found = Finding(Level.WARNING, subject, fact, "check the address and the network")
    return [found]


def _secret(name: str, region: str, *, exists: bool | Unknown | None) -> list[Finding]:
    if exists is None or isinstance(exists, Unknown):
        return not_known(f"the secret {name}", exists)
    if exists:
        return [Finding(Level.OK, f"secret {name}", "is there")]
    return [
        Finding(
            Level.ERROR,
            f"secret {name}",
            "does not exist, and the build reads the Hub's token from it",
            "Make it",
            _make_secret(name, region),
        )
    ]


def _make_secret(name: str, region: str) -> str:
    # From a file: what is typed stays in the shell's history.
    make = f"aws secretsmanager create-secret --name {name} --secret-string file://hf-token.txt"
    return f"{make} --region {region}"
