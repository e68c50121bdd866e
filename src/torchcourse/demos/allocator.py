"""A small caching allocator that shows why memory stays reserved and how it fragments."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchcourse.demos import style
from torchcourse.demos.style import Picture

WIDTH, ROW, LEFT = 6.6, 0.34, 1.15  # inches


@dataclass
class Piece:
    """A part of a segment, used by `owner`, or free if that is ""."""

    size: int
    owner: str = ""


@dataclass
class CachingAllocator:
    """An allocator that cuts pieces from the device's segments, and keeps freed pieces for reuse.

    Sizes are in MiB. A segment is at least `smallest`; like CUDA's, it goes back to the device only as a whole.
    """

    capacity: int
    smallest: int = 20
    segments: list[list[Piece]] = field(default_factory=list)

    @property
    def reserved(self) -> int:
        """The MiB that the device has given to the allocator."""
        return sum(piece.size for segment in self.segments for piece in segment)

    @property
    def allocated(self) -> int:
        """The MiB of them that tensors use."""
        return sum(piece.size for segment in self.segments for piece in segment if piece.owner)

    def take(self, owner: str, size: int) -> None:
        """Allocate the smallest free piece that is large enough, or a new segment.

        Raises:
            MemoryError: if there is neither, even after unused segments went back to the device.
        """
        for attempt in range(2):
            fitting = [(piece.size, s, p) for s, segment in enumerate(self.segments)
                       for p, piece in enumerate(segment) if not piece.owner and piece.size >= size]  # fmt: skip
            if not fitting and self.reserved + max(size, self.smallest) <= self.capacity:
                self.segments.append([Piece(max(size, self.smallest))])
                fitting = [(0, len(self.segments) - 1, 0)]
            if fitting:
                self._cut(owner, size, *min(fitting)[1:])
                return
            if attempt == 0:
                self.empty_cache()
        raise MemoryError(f"{size} MiB wanted; {self.reserved} reserved, {self.reserved - self.allocated} of them free")

    def _cut(self, owner: str, size: int, segment: int, place: int) -> None:
        rest = self.segments[segment][place].size - size
        self.segments[segment][place : place + 1] = [Piece(size, owner)] + ([Piece(rest)] if rest else [])

    def give_back(self, owner: str) -> None:
        """Free the pieces of `owner`, and join adjacent free pieces. The segment stays reserved."""
        for segment in self.segments:
            for piece in segment:
                piece.owner = "" if piece.owner == owner else piece.owner
            joined: list[Piece] = []
            for piece in segment:
                if joined and not piece.owner and not joined[-1].owner:
                    joined[-1].size += piece.size
                else:
                    joined.append(piece)
            segment[:] = joined

    def empty_cache(self) -> None:
        """Return unused segments to the device."""
        self.segments = [segment for segment in self.segments if any(piece.owner for piece in segment)]

    def picture(self) -> Picture:
        """Draw each segment as a row: used pieces in blue, free ones blank."""
        height = 0.5 + (ROW + 0.1) * max(len(self.segments), 1)
        figure, page = style.canvas(WIDTH, height)
        words = f"{self.allocated} MiB allocated, {self.reserved} reserved, of {self.capacity}"
        style.say(page, 0.1, height - 0.2, words, bold=True)
        scale = (WIDTH - LEFT - 0.15) / max([sum(p.size for p in s) for s in self.segments] + [1])
        for row, segment in enumerate(self.segments):
            y, x = height - 0.42 - (row + 1) * (ROW + 0.1) + 0.1, LEFT
            style.say(page, 0.1, y + ROW / 2, f"segment {row}", size=8.5)
            for piece in segment:
                fill = style.SKY if piece.owner else style.PAPER
                label = f"{piece.owner or 'free'} {piece.size}" if piece.size * scale > 0.55 else ""
                style.cell(page, x, y, piece.size * scale, ROW, label, fill=fill, dashed=not piece.owner, size=8)
                x += piece.size * scale
        return style.finish(figure, f"Caching allocator: {words}, in {len(self.segments)} segments.")
