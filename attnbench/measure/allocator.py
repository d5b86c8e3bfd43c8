"""The C allocator's policy: a condition of every CPU timing, set before a method allocates.

glibc returns large freed blocks to the kernel, and the page faults of getting them back then dominate dense
methods. `retain` keeps them, as a long-running process does; `system` is glibc's default.
"""

import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
PAD = 256 * 2**20
"""The bytes of address space that the heap reserves ahead under `retain`; they take no memory until they are touched."""


def retain(ahead: int = PAD) -> bool:
    """Keep freed memory in the process from now on, and grow by `ahead` bytes; False where this C library has no mallopt."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # give no block a mapping of its own, do not trim the heap's top, and grow in large steps
    return all(mallopt(option, value) for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1), (_M_TOP_PAD, ahead)))


def trim() -> bool:
    """Give all free memory back to the kernel; False where this C library has no malloc_trim."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is None:
        return False
    malloc_trim(0)
    return True
