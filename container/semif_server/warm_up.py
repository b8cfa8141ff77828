"""One real decision before the first caller's: faults show now, and the slow first decodes are over."""

import time
from typing import Final

from semif_server.engine.engine import Engine
from semif_server.engine.prepare import Preparer
from semif_server.engine.present import present
from semif_server.engine.task import DecisionRequest, DecisionTask
from semif_server.errors import Code, ModelError, RequestError, SettingsError, TokenBudgetError

_TRIES: Final = 3
_REQUEST: Final = DecisionRequest(
    (DecisionTask("warm-up", '"The lamp is on."', "Is it on?", ("yes", "no"), ("On.", "Off.")),), shared=False
)


def warm_up(preparer: Preparer, engine: Engine) -> None:
    """Decide once, through all parts but HTTP; the engine has been started and is not open yet.

    Gives up silently where the engine has stopped or was told to: whoever runs it sees that itself. Raises
    StartError if this server could not answer even this.
    """
    try:
        prepared = preparer.prepare(_REQUEST)
    except TokenBudgetError as error:
        raise SettingsError(
            f"SEMIF_MAX_TOKENS, SEMIF_MAX_REQUEST_TOKENS: not even a short decision fits. {error.message}"
        ) from None
    # Memory that is touched for the first time makes the first decodes slow: a short deadline gets a chance.
    for remaining in reversed(range(_TRIES)):
        arrived_s = time.perf_counter()
        try:
            outcome = engine.submit(prepared, arrived_s).future.result()
        except RequestError as error:
            if engine.is_closing or engine.has_stopped:
                return
            if error.code not in {Code.BUSY, Code.DEADLINE_EXCEEDED}:
                raise ModelError(f"The warm-up decision failed: {error.message}") from None
            if not remaining:
                raise SettingsError(
                    "SEMIF_DEADLINE_S: not even a short decision is answered in time; raise it."
                    f" {error.message}"
                ) from None
        else:
            present(prepared, outcome, arrived_s)
            return
