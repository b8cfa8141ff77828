"""llama.cpp called directly, past all of the server's engine, in a process of its own.

    python -m bench.raw_child GGUF

Reads a JSON object a line and answers with one: `{"op": "encode" | "fresh" | "shared", "decisions": [...]}`.
Only decodes and the reading of logits are timed; prompts are the server's own tokens, the head is decoded
before.
"""

import ctypes
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from semif_server.encoding import EncodedPrompt, PromptEncoder
from semif_server.llama import LlamaModel, llama_cpp
from semif_server.profile import load_profile
from semif_server.prompt import to_json
from semif_server.template import ChatTemplate

THREADS: Final = 2
_MICRO_BATCH_TOKENS: Final = 512
_CONTEXT_TOKENS: Final = 4096
_BRANCHES: Final = 32


class RawContext:
    """A context with the head in sequence 0. branches: how many sequences may continue it in one decode."""

    def __init__(self, model: Any, n_vocab: int, head: Sequence[int], *, branches: int) -> None:
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = _CONTEXT_TOKENS
        parameters.n_ubatch = _MICRO_BATCH_TOKENS
        parameters.n_seq_max = 1 + branches
        parameters.kv_unified = branches > 0  # branches then see the prefix's cells without a copy
        parameters.n_threads = parameters.n_threads_batch = THREADS
        self._context = llama_cpp.llama_init_from_model(model, parameters)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._n_vocab = n_vocab
        self._head_tokens = len(head)
        self._decode([(head, 0, 0)])

    def fresh(self, tokens: Sequence[int]) -> float:
        """Seconds to decode what follows the head, up to the last token's logits."""
        self._cut(self._head_tokens)
        begun_s = time.perf_counter()
        self._decode([(tokens, self._head_tokens, 0)])
        return time.perf_counter() - begun_s

    def serial(self, state: Sequence[int], tails: Sequence[Sequence[int]]) -> float:
        """Seconds to decode the state once and each tail behind it, one after the other."""
        self._cut(self._head_tokens)
        prefix_tokens = self._head_tokens + len(state)
        begun_s = time.perf_counter()
        self._decode([(state, self._head_tokens, 0)])
        for tail in tails:
            self._decode([(tail, prefix_tokens, 0)])
            self._cut(prefix_tokens)
        return time.perf_counter() - begun_s

    def batched(self, state: Sequence[int], tails: Sequence[Sequence[int]]) -> float:
        """Seconds to decode the state once and all tails behind it in one decode."""
        self._cut(self._head_tokens)
        prefix_tokens = self._head_tokens + len(state)
        begun_s = time.perf_counter()
        self._decode([(state, self._head_tokens, 0)])
        for branch in range(len(tails)):
            llama_cpp.llama_memory_seq_cp(self._memory, 0, 1 + branch, -1, -1)
        self._decode([(tail, prefix_tokens, 1 + branch) for branch, tail in enumerate(tails)])
        seconds = time.perf_counter() - begun_s
        for branch in range(len(tails)):
            llama_cpp.llama_memory_seq_rm(self._memory, 1 + branch, -1, -1)
        return seconds

    def _cut(self, position: int) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, 0, position, -1)

    def _decode(self, pieces: Sequence[tuple[Sequence[int], int, int]]) -> None:
        """Decode (tokens, first position, sequence) together and read the logits of each last token."""
        batch = llama_cpp.llama_batch_init(sum(len(tokens) for tokens, _, _ in pieces), 0, 1)
        ends = []
        for tokens, position, sequence in pieces:
            for offset, token in enumerate(tokens):
                index = batch.n_tokens
                batch.token[index] = token
                batch.pos[index] = position + offset
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = sequence
                batch.logits[index] = offset == len(tokens) - 1
                batch.n_tokens += 1
            ends.append(batch.n_tokens - 1)
        status = llama_cpp.llama_decode(self._context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode answered {status}")
        for end in ends:
            row = llama_cpp.llama_get_logits_ith(self._context, end)
            pointer = ctypes.cast(row, ctypes.POINTER(ctypes.c_float))
            np.ctypeslib.as_array(pointer, shape=(self._n_vocab,)).copy()
        llama_cpp.llama_batch_free(batch)


class Raw:
    """Answers the operations."""

    def __init__(self, gguf: Path) -> None:
        served = LlamaModel(gguf)
        vocabulary = served.vocabulary
        template = ChatTemplate(
            served.chat_template(), bos_token=vocabulary.bos_text(), eos_token=vocabulary.eos_text()
        )
        self._encoder = PromptEncoder(vocabulary, template, load_profile(None))
        self._model = llama_cpp.llama_model_load_from_file(
            str(gguf).encode(), llama_cpp.llama_model_default_params()
        )
        head = self._encoder.head
        self._single = RawContext(self._model, vocabulary.n_tokens, head, branches=0)
        self._branching = RawContext(self._model, vocabulary.n_tokens, head, branches=_BRANCHES)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One operation's answer, in tokens and seconds."""
        prompts = [self._encode(decision) for decision in request["decisions"]]
        first = prompts[0]
        match request["op"]:
            case "encode":
                return {"head": len(first.head), "state": len(first.state), "tail": len(first.tail)}
            case "fresh":
                tokens = (*first.state, *first.tail)
                return {"seconds": self._single.fresh(tokens), "tokens": len(tokens)}
            case "shared":
                tails = [prompt.tail for prompt in prompts]
                return {
                    "serial_seconds": self._single.serial(first.state, tails),
                    "batched_seconds": self._branching.batched(first.state, tails),
                    "tokens": len(first.state) + sum(len(tail) for tail in tails),
                }
            case unknown:
                raise ValueError(f"no operation {unknown!r}")

    def _encode(self, decision: dict[str, Any]) -> EncodedPrompt:
        descriptions = [option["description"] for option in decision["options"]]
        return self._encoder.encode(to_json(decision["state"]), decision["question"], descriptions)


def main() -> None:
    """Answer until the input ends."""
    raw = Raw(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(raw.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
