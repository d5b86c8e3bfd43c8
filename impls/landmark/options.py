"""The parameters of attention through landmarks."""

from dataclasses import dataclass

_ANCHORS = 1 << 16
"""The most anchors of a pyramid: the matrix that places sums of tiles has about the square of so many numbers, 17 GB."""


@dataclass(frozen=True)
class Options:
    """Numbers of landmarks, of iterations of the pseudo-inverse, and of tokens of the convolution.

    Raises ValueError unless all are whole numbers within their limits.
    """

    landmarks: int = 64
    iterations: int = 6
    convolution_kernel: int = 0

    def __post_init__(self) -> None:
        for name, least in (("landmarks", 1), ("iterations", 0), ("convolution_kernel", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value!r}: must be a whole number, {least} or more")
        if self.convolution_kernel and not self.convolution_kernel % 2:
            raise ValueError(f"convolution_kernel={self.convolution_kernel!r}: must be odd, for it is centred, or 0 for none")

    def segments(self, N: int) -> int:
        """Count the landmarks of a sequence: at most one for each token."""
        return min(self.landmarks, N)


def anchors_of(bins: str) -> tuple[int, ...]:
    """Parse the bins of each level of a pyramid from text such as "1,9,36,64". Raises ValueError on other text."""
    parts = bins.split(",") if isinstance(bins, str) else []
    levels = tuple(int(part) for part in parts if part.strip().isdecimal())
    if not parts or len(levels) != len(parts) or min(levels) < 1:
        raise ValueError(f'bins={bins!r}: must be numbers of bins, each 1 or more, with commas between: "1,9,36,64"')
    if sum(levels) > _ANCHORS:
        raise ValueError(f"bins={bins!r}: must be no more than {_ANCHORS:,} bins in all")
    return levels
