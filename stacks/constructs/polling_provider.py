"""A custom resource's functions that poll until they are done, on CDK's Provider framework."""

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

from stacks.constructs.function_code import SERVICE_MODELS, function_code
from stacks.constructs.log_writer_role import log_writer_role

QUERY_INTERVAL: Final = cdk.Duration.seconds(15)
TOTAL_TIMEOUT: Final = cdk.Duration.minutes(55)
_HANDLERS: Final = {"OnEvent": "on_event", "IsComplete": "is_complete"}


class PollingProvider(Construct):
    """Runs `on_event` and `is_complete` of lambda/PACKAGE/handler.py; the second has the rights to act.

    `service_token` is what the custom resource names. `service_models` as for `function_code`.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, package: str, service_models: Sequence[str] = ()
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(
            self,
            "Logs",
            removal_policy=cdk.RemovalPolicy.DESTROY,
            retention=logs.RetentionDays.THREE_MONTHS,
        )
        variables = {"AWS_DATA_PATH": f"/var/task/{SERVICE_MODELS}"} if service_models else None
        with function_code(package, service_models) as folder:
            code = lambda_.Code.from_asset(str(folder))

            def function(name: str, timeout: cdk.Duration) -> lambda_.Function:
                return lambda_.Function(
                    self,
                    name,
                    runtime=lambda_.Runtime.PYTHON_3_13,
                    handler=f"{package}.handler.{_HANDLERS[name]}",
                    # Copied into the assembly at once, before the folder goes.
                    code=code,
                    environment=variables,
                    role=log_writer_role(self, f"{name}Role", log_group),
                    log_group=log_group,
                    timeout=timeout,
                    memory_size=256,
                )

            self.is_complete = function("IsComplete", cdk.Duration.minutes(5))
            on_event = function("OnEvent", cdk.Duration.seconds(30))
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=on_event,
            is_complete_handler=self.is_complete,
            query_interval=QUERY_INTERVAL,
            total_timeout=TOTAL_TIMEOUT,
            log_group=log_group,
            framework_on_event_role=log_writer_role(self, "FrameworkOnEventRole", log_group),
            framework_complete_and_timeout_role=log_writer_role(self, "FrameworkIsCompleteRole", log_group),
            # The waiter's own log needs rights on every log group; the functions say all that happens.
            disable_waiter_state_machine_logging=True,
        )
        self.service_token = provider.service_token
