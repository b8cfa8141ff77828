"""`python -m localaws`: run the local AWS until it is interrupted."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import threading
from collections.abc import MutableMapping
from pathlib import Path

from localaws.registry.buildah import NOT_PROVEN
from localaws.session import environment_of


def forget_users_aws(environment: MutableMapping[str, str]) -> None:
    """Take every AWS variable and file of the user's out of `environment`.

    The clients inside would otherwise read them: a profile that does not exist stops the start, and an
    endpoint URL or a certificate bundle leads elsewhere.
    """
    for name in [name for name in environment if name.startswith("AWS_")]:
        del environment[name]
    environment["AWS_CONFIG_FILE"] = environment["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    environment["AWS_EC2_METADATA_DISABLED"] = "true"


def main() -> None:
    """Parse the command line, serve, and stop in order on SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="localaws", description="An embedded AWS on 127.0.0.1")
    parser.add_argument("--port", type=int, default=4600)
    parser.add_argument("--region", default="us-east-1", help="region of the printed environment")
    parser.add_argument("--ready-s", type=float, default=2.0, help="seconds until an endpoint finds capacity")
    parser.add_argument("--poll-s", type=float, default=1.0, help="longest wait between retries of a waiter")
    parser.add_argument(
        "--node-modules",
        type=Path,
        default=Path(__file__).parents[1] / "node_modules",
        help="where functions on node find the AWS SDK",
    )
    parser.add_argument("--verbose", action="store_true", help="log every function that runs")
    arguments = parser.parse_args()

    forget_users_aws(os.environ)
    # moto reads its port from the environment when its state machines call other services.
    os.environ["MOTO_PORT"] = str(arguments.port)
    from localaws import server as web  # noqa: PLC0415 - importing moto takes seconds; usage errors need none

    web.log_to_stderr(logging.INFO if arguments.verbose else logging.WARNING)
    settings = web.Settings(
        port=arguments.port,
        region=arguments.region,
        ready_s=arguments.ready_s,
        poll_s=arguments.poll_s,
        node_modules=arguments.node_modules.resolve(),
    )
    server, app = web.listen(settings)

    def end() -> None:
        app.end_builds()
        server.shutdown()

    def stop(signum: int, frame: object) -> None:
        del signum, frame
        threading.Thread(target=end).start()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    print(f"# The local AWS listens on {settings.url}. In another terminal:")
    for name, value in environment_of(settings.url, settings.region).items():
        print(f"export {name}={value}")
    if shutil.which("buildah") is None:
        print(f"# {NOT_PROVEN}")
    print("# Stop it with Ctrl-C; everything in it is gone then.", flush=True)
    try:
        server.serve_forever()
    finally:
        app.close()
        server.server_close()


if __name__ == "__main__":
    main()
