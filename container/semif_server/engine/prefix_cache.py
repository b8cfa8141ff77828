"""Which sequence of the context holds which prefix, and where a row goes on. Pure: it only keeps the books.

A row holds no sequence between two decodes: what has been decoded of it lies here as a prefix like any
other, found again by its key. So a second request about a state, the other questions of the same request
and the next chunk of a long prompt are one and the same case.

Two kinds of memory. One that can cut a tail off (plain attention) is cut back to any boundary of the plan
in place. One that can't (recurrent, hybrid) is usable only where it ends, and is copied whole before it is
gone on with, unless nobody needs it there any more.
"""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Final

from semif_server.engine.plan import Row

FEWEST_SEQUENCES_CUTTING: Final = 2  # the head, and one to work in
FEWEST_SEQUENCES_COPYING: Final = 3  # the head, a state, and one to work in


@dataclass(frozen=True, slots=True)
class Copy:
    """Make the target sequence a copy of the whole source."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Keep the first `position` tokens of a sequence; 0 empties it."""

    sequence: int
    position: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a row's next chunk goes: a sequence that holds `boundaries` chunks of it after the operations."""

    sequence: int
    boundaries: int
    operations: tuple[Copy | Cut, ...]


@dataclass(slots=True)
class _Held:
    """What one sequence holds: the boundary keys, and how many of them end in its last durable one."""

    keys: list[bytes] = field(default_factory=list)
    durable: int = 0
    used: int = 0


class PrefixCache:
    """The books of `sequences` sequences; the last one holds the head, for ever.

    work: how many of the others rows are evaluated in. Where that is all of them, durable prefixes stay
    where they were decoded; where it is fewer, they are copied to the rest, so that the sequences of one
    batch stay neighbours, as llama.cpp wants them. claims: keys that something unfinished counts on.
    """

    def __init__(self, head: Row, *, sequences: int, work: int, can_cut: bool) -> None:
        fewest = FEWEST_SEQUENCES_CUTTING if can_cut else FEWEST_SEQUENCES_COPYING
        if sequences < fewest or not 0 < work < sequences:
            raise ValueError(f"{sequences} sequences with {work} to work in; {fewest} are the fewest")
        self._can_cut = can_cut
        self._work = work
        self._head_sequence = sequences - 1
        self._head = head
        self._held = [_Held() for _ in range(sequences)]
        self._holders: dict[bytes, set[int]] = {}
        self._clock = 0
        self.claims: Counter[bytes] = Counter()
        self._set(self._head_sequence, list(head.keys))

    @property
    def head_sequence(self) -> int:
        """The sequence that holds the head."""
        return self._head_sequence

    @property
    def used_sequences(self) -> int:
        """How many sequences hold anything."""
        return sum(bool(held.keys) for held in self._held)

    def boundaries(self, row: Row) -> int:
        """How many of the row's chunks some sequence holds, but for the last, whose logits are wanted."""
        for count in range(len(row.chunks) - 1, 0, -1):
            if self._holders.get(row.keys[count - 1]):
                return count
        return 0

    def cached_tokens(self, row: Row) -> int:
        """How many of the row's tokens need no decode."""
        count = self.boundaries(row)
        return row.chunks[count - 1].stop if count else 0

    def place(
        self, row: Row, *, busy: Set[int] = frozenset(), own: Set[bytes] = frozenset()
    ) -> Placement | None:
        """Choose the sequence for a row's next chunk, and enter what the operations will have done.

        busy: sequences of the same decode. own: claims of the row's own request, given up rather than
        nothing be done; what others claim is kept. None when no sequence is left then.
        """
        count = self.boundaries(row)
        holders = self._holders.get(row.keys[count - 1], set()) if count else set()
        choices = []
        for sequence in range(self._work):
            if sequence in busy:
                continue
            in_place = sequence in holders or not count
            kept = count if in_place and self._can_cut else 0
            lost = self._lost(sequence, kept)
            if any(self.claims[key] > (key in own) for key in lost):
                continue
            gives_up_own = any(self.claims[key] for key in lost)
            held = self._held[sequence]
            loses_durable = held.durable > kept and held.keys[held.durable - 1] in lost
            age = held.used if loses_durable else 0
            choices.append((gives_up_own, loses_durable, not in_place, age, sequence))
        if not choices:
            return None
        *_, copies, _, sequence = min(choices)
        source = min(holders) if copies else sequence
        operations: list[Copy | Cut] = [Copy(source, sequence)] if copies else []
        if len(self._held[source].keys) > count:
            operations.append(Cut(sequence, row.chunks[count - 1].stop if count else 0))
        self._held[source].used = self._tick()
        durable = 0 if copies else min(self._held[sequence].durable, count)
        self._set(sequence, list(row.keys[:count]), durable)
        return Placement(sequence, count, tuple(operations))

    def advance(self, sequence: int, row: Row) -> Copy | None:
        """Enter that a sequence holds the row's next chunk; gives the copy that keeps a new prefix."""
        count = len(self._held[sequence].keys) + 1
        durable = self._held[sequence].durable if self._can_cut else 0
        is_durable = row.chunks[count - 1].stop == row.durable_end
        keeps_in_place = self._work == self._head_sequence
        if is_durable and keeps_in_place:
            durable = count
        self._set(sequence, list(row.keys[:count]), durable)
        if not is_durable or keeps_in_place:
            return None
        return self._keep(sequence, row, count)

    def forget(self, sequence: int) -> None:
        """Enter that a sequence was emptied."""
        self._set(sequence, [])

    def reset(self) -> None:
        """Enter that all sequences were emptied and the head was decoded anew."""
        for sequence in range(len(self._held)):
            self._set(sequence, [])
        self._set(self._head_sequence, list(self._head.keys))

    def _keep(self, source: int, row: Row, count: int) -> Copy | None:
        key = row.keys[count - 1]
        kept = range(self._work, self._head_sequence)
        if self._holders[key] & set(kept):
            return None
        free = [one for one in kept if not any(self.claims[key] for key in self._held[one].keys)]
        if not free:
            return None
        target = min(free, key=lambda one: self._held[one].used)
        self._set(target, list(row.keys[:count]), count)
        return Copy(source, target)

    def _lost(self, sequence: int, kept: int) -> set[bytes]:
        """The prefixes that no sequence holds any more when one keeps its first `kept` boundaries only."""
        keys = self._held[sequence].keys
        return {
            key for key in self._usable(keys) if key not in keys[:kept] and self._holders[key] == {sequence}
        }

    def _set(self, sequence: int, keys: list[bytes], durable: int = 0) -> None:
        held = self._held[sequence]
        for key in self._usable(held.keys):
            self._holders[key].discard(sequence)
            if not self._holders[key]:
                del self._holders[key]
        held.keys, held.durable, held.used = keys, durable, self._tick()
        for key in self._usable(keys):
            self._holders.setdefault(key, set()).add(sequence)

    def _usable(self, keys: list[bytes]) -> list[bytes]:
        """The boundaries at which a sequence can be gone on with."""
        return keys if self._can_cut else keys[-1:]

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
