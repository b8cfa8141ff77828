"""fastjev's llama.cpp backend in a process of its own, in the peers' environment.

    python fastjev_child.py GGUF

Reads `{"decisions": [...]}` a line, scores it as fastjev's SDK does (several decisions in its shared mode),
and answers with the seconds that took and the tokens of the longest prompt. It imports nothing of this
project.
"""

import json
import sys
import time

from fastjev import BackendOption, BackendRequest, LlamaCppBackend

_THREADS = 2
_MAX_INPUT_TOKENS = 2048


def main() -> None:
    """Answer until the input ends."""
    backend = LlamaCppBackend.from_pretrained(
        sys.argv[1],
        "benchmark",
        max_input_tokens=_MAX_INPUT_TOKENS,
        prefix_reuse=True,
        n_threads=_THREADS,
        n_threads_batch=_THREADS,
    )
    for line in sys.stdin:
        requests = [
            BackendRequest(
                id=decision["id"],
                state=decision["state"],
                instruction=decision["question"],
                options=tuple(
                    BackendOption(id=option["id"], description=option["description"])
                    for option in decision["options"]
                ),
            )
            for decision in json.loads(line)["decisions"]
        ]
        begun_s = time.perf_counter()
        results = backend.score(requests)
        seconds = time.perf_counter() - begun_s
        tokens = max(result.input_tokens for result in results)
        print(json.dumps({"seconds": seconds, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    main()
