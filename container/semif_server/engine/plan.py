"""The chunk plan: which tokens of a prompt go into which llama_decode. Pure.

Where a prompt is cut changes the rounding of its logits. So the cuts depend on the prompt's own
segments alone, never on what is cached or running: a cached prefix then holds the very numbers that a
fresh evaluation would compute.
"""

from dataclasses import dataclass
from typing import Final

# A shorter state costs more as a decode of its own than its reuse saves.
MIN_OWN_STATE_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, stop) of the prompt, one llama_decode."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Chunks in order, gapless. A sequence may be copied only where it holds exactly a prefix.

    head_end: where the head ends. prefix_end: where head and state end; equal to head_end when the state
    is too short to stand alone.
    """

    chunks: tuple[Chunk, ...]
    head_end: int
    prefix_end: int

    def chunks_between(self, start: int, stop: int) -> tuple[Chunk, ...]:
        """The chunks of [start, stop), both of which must be ends of segments."""
        return tuple(chunk for chunk in self.chunks if start <= chunk.start and chunk.stop <= stop)


def plan_chunks(head_tokens: int, state_tokens: int, tail_tokens: int, micro_batch: int) -> Plan:
    """Cut each segment into chunks of micro_batch tokens, the last one shorter."""
    head_end = head_tokens
    prefix_end = head_end + state_tokens if state_tokens >= MIN_OWN_STATE_TOKENS else head_end
    end = head_tokens + state_tokens + tail_tokens
    chunks = tuple(
        Chunk(start, min(start + micro_batch, segment_end))
        for segment_start, segment_end in ((0, head_end), (head_end, prefix_end), (prefix_end, end))
        for start in range(segment_start, segment_end, micro_batch)
    )
    return Plan(chunks, head_end, prefix_end)
