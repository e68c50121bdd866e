"""A caching allocator in small: it shows why memory stays reserved, and how it falls to pieces."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchcourse.demos import style
from torchcourse.demos.style import Picture

WIDTH, ROW, LEFT = 6.6, 0.34, 1.15  # inches


@dataclass
class Piece:
    """A stretch of a segment, used by `owner` or free where that is empty."""

    size: int
    owner: str = ""


@dataclass
class CachingAllocator:
    """Asks the device for segments, cuts pieces from them, and keeps what is given back for the next one.

    Sizes are in MiB. A segment is at least `smallest`; like CUDA's, it goes back to the device only as a whole.
    """

    capacity: int
    smallest: int = 20
    segments: list[list[Piece]] = field(default_factory=list)

    @property
    def reserved(self) -> int:
        """What the device has given to us."""
        return sum(piece.size for segment in self.segments for piece in segment)

    @property
    def allocated(self) -> int:
        """What tensors hold of it."""
        return sum(piece.size for segment in self.segments for piece in segment if piece.owner)

    def take(self, owner: str, size: int) -> None:
        """Find room: the smallest free piece that is large enough, else a new segment.

        Raises:
            MemoryError: when there is neither, even after free segments went back.
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
        """Free what `owner` holds, and join free pieces that lie side by side. The segment stays."""
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
        """Give back to the device the segments of which nothing is used."""
        self.segments = [segment for segment in self.segments if any(piece.owner for piece in segment)]

    def picture(self) -> Picture:
        """The segments, a row each: used pieces in blue, free ones blank."""
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
