"""One environment: its stacks, wired."""

import aws_cdk as cdk
from constructs import Construct

from stacks.artifacts import ArtifactsStack
from stacks.semif_endpoint import DecisionsStack
from stacks.settings import EnvironmentSettings


class EnvironmentStage(cdk.Stage):
    """The stacks of one account and region; the stage's id is the environment's name."""

    def __init__(self, scope: Construct, settings: EnvironmentSettings) -> None:
        super().__init__(
            scope, settings.name, env=cdk.Environment(account=settings.account, region=settings.region)
        )
        self.artifacts = ArtifactsStack(
            self,
            "artifacts",
            environment_name=settings.name,
            region=settings.region,
            model=settings.model,
        )
        self.decisions = DecisionsStack(self, "decisions", environment=settings, artifacts=self.artifacts)
        for key, value in settings.tags.items():
            cdk.Tags.of(self).add(key, value)
