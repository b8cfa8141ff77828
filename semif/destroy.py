"""`semif destroy`: say what goes and what stays, ask, run `cdk destroy`, check that nothing is left."""

from collections.abc import Callable

from semif.aws import aws_errors
from semif.deploy import CONCURRENCY, run_followed
from semif.doctor import Prepared
from semif.errors import ExitCode
from semif.inventory import (
    Inventory,
    busy_lines,
    going_lines,
    protection_lines,
    remaining_lines,
    staying_lines,
    unknown_lines,
)
from semif.inventory_api import InventoryReader
from semif.purge_api import purge as remove_kept
from semif.purge_api import remove_left

Say = Callable[[str], None]


def destroy(
    prepared: Prepared, *, purge: bool, ask: Callable[[str], bool], typed: Callable[[str], bool], say: Say
) -> int:
    """Destroy; returns the exit code. `ask` puts a question, `typed` asks for the environment's name."""
    plan, reader = prepared.plan, InventoryReader(prepared.aws, prepared.plan)
    before = reader.read()
    _say_all(say, [*going_lines(before), *staying_lines(before, purge=purge), *unknown_lines(before)])
    if refusal := protection_lines(plan, before.stacks) or busy_lines(plan, before.stacks):
        _say_all(say, refusal)
        return ExitCode.FAILED
    if not before.stacks and not any(item.owner for item in before.left) and not (purge and before.kept):
        say(f"{plan.name} in {plan.region}: nothing to destroy")
        return ExitCode.FAILED if before.unknown else ExitCode.OK
    if purge:
        agreed = typed(f"This removes all of it for good. Type the environment's name ({plan.name}): ")
    else:
        agreed = ask(f"Destroy {plan.name} in {plan.region}?")
    if not agreed:
        say("nothing was destroyed")
        return ExitCode.FAILED
    code = _destroy_stacks(prepared, before, say)
    if code != ExitCode.OK:
        return code
    return _check(prepared, reader, purge=purge, say=say)


def _destroy_stacks(prepared: Prepared, before: Inventory, say: Say) -> int:
    """Run `cdk destroy` for the stacks of the assembly; those that it no longer has go by CloudFormation."""
    plan = prepared.plan
    strays = [stack for stack in before.stacks if stack.name not in plan.stacks]
    cloudformation = prepared.aws.cloudformation()
    for stack in strays:
        say(f"{stack.name} is no longer in cdk.json; deleting it")
        with aws_errors(f"stack {stack.name}"):
            cloudformation.delete_stack(StackName=stack.id)
    for stack in strays:
        with aws_errors(f"stack {stack.name}"):
            cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack.id)
        say(f"{stack.name} DELETE_COMPLETE")
    if len(strays) == len(before.stacks):
        return ExitCode.OK
    arguments = ["destroy", f"{plan.name}/*", "--app", str(prepared.assembly)]
    arguments += ["--force", "--concurrency", str(CONCURRENCY)]
    code = run_followed(prepared, "cdk destroy", arguments, say)
    if code not in {ExitCode.OK, ExitCode.INTERRUPTED}:
        say(f"next: mend the cause above, then semif destroy {plan.name} again")
    return code


def _check(prepared: Prepared, reader: InventoryReader, *, purge: bool, say: Say) -> int:
    """Look again: remove what the stacks left behind, then say what is left and what stays."""
    plan, after = prepared.plan, reader.read()
    if any(item.owner for item in after.left):
        remove_left(prepared.aws, after.left, say)
        after = reader.read()
    if remaining := remaining_lines(after):
        _say_all(say, [*unknown_lines(after), *remaining])
        say(f"{plan.name} in {plan.region} is not gone")
        return ExitCode.FAILED
    if purge:
        remove_kept(prepared.aws, after.kept, say)
        after = reader.read()
    _say_all(say, [*unknown_lines(after), *staying_lines(after, purge=False)])
    checked = "no stack, endpoint, endpoint configuration, model, running build or network interface is left"
    if after.unknown:
        say(f"{plan.name} in {plan.region}: what could be checked is gone")
        return ExitCode.FAILED
    say(f"{plan.name} in {plan.region} is gone: {checked}")
    return ExitCode.OK


def _say_all(say: Say, lines: list[str]) -> None:
    for line in lines:
        say(line)
