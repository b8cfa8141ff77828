"""What one process of the self-test does: exercise the library through the bindings and print what it found.

    probes.py defaults | scores        prints one JSON object

Each probe runs in a process of its own, because bindings that don't fit can end the process they run in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from semif_server.library_defaults import DEFAULTS, compare_defaults

HERE: Final = Path(__file__).resolve().parent
MODEL: Final = HERE / "tiny-hybrid.gguf"
EXPECTED: Final = HERE / "expected.json"

TEXTS: Final = (
    ("<|im_start|>user\nIs the lamp on?<|im_end|>\n<|im_start|>assistant\n", True),
    ('{"state": "Grüße, 漢字 and <|im_end|> as text."}', False),
)
CONTINUATION: Final = "The answer"


def defaults() -> dict[str, object]:
    """The layout of the structs that the library returns by value."""
    from semif_server.bindings import load_bindings, missing_functions  # noqa: PLC0415  only this process loads it

    wrong = compare_defaults(load_bindings())
    return {"wrong": wrong, "checked": sum(map(len, DEFAULTS.values())), "missing": sorted(missing_functions)}


def scores() -> dict[str, object]:
    """Tokens and logits of the tiny hybrid model, by the server's own code."""
    from semif_server.llama import LlamaModel  # noqa: PLC0415  only this process loads it
    from semif_server.llama_batch import Piece  # noqa: PLC0415  only this process loads it

    model = LlamaModel(MODEL)
    vocabulary = model.vocabulary
    tokens = [vocabulary.tokenize(text, parse_special=special) for text, special in TEXTS]
    context = model.new_context(sequences=2, sequence_tokens=256, threads=1)
    (first,) = context.decode([Piece(0, 0, tokens[0], want_logits=True)])
    context.copy(0, 1)
    more = vocabulary.tokenize(CONTINUATION, parse_special=False)
    (second,) = context.decode([Piece(1, len(tokens[0]), more, want_logits=True)])
    if first is None or second is None:
        raise RuntimeError("no logits came where they were asked for")
    logits = [[round(float(value), 5) for value in row] for row in (first, second)]
    context.close()
    model.close()
    return {"tokens": tokens, "logits": logits}


if __name__ == "__main__":
    json.dump({"defaults": defaults, "scores": scores}[sys.argv[1]](), sys.stdout)
