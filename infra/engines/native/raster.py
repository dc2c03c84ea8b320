"""Pictures as raw rows in a file: any window is read or written without holding the rest in memory."""

import os
from pathlib import Path
from typing import Self

import numpy as np

from infra.engines.native.geometry import Box, Pixels


class Raster:
    """8-bit pixels, interleaved bands, rows from the top, in one file.

    Uses `pread` and `pwrite` in place of a memory map: mapped pages would count as the process's own
    and a full disk would end it by SIGBUS where a write raises `OSError`.
    """

    def __init__(self, path: Path, *, width: int, height: int, bands: int) -> None:
        """Describe the file; `create` or `open` makes the handle."""
        self.path = path
        self.width = width
        self.height = height
        self.bands = bands
        self._fd = -1

    @property
    def size(self) -> int:
        """Bytes of the whole picture."""
        return self.width * self.height * self.bands

    def create(self) -> Self:
        """Make the file at its full size.

        Raises:
            OSError: The disk can't hold it; the blocks are reserved here, not found missing half way.
        """
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self._fd, 0, self.size)
        return self

    def open(self) -> Self:
        """Open an existing file for reading."""
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def close(self) -> None:
        """Give the handle back; the file stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        """Already open; closes at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def read(self, box: Box) -> Pixels:
        """One window, rows x columns x bands."""
        window = np.empty((box.height, box.width, self.bands), np.uint8)
        rows = window.reshape(self._pieces(box), -1)
        for i in range(len(rows)):
            got = os.preadv(self._fd, [rows[i].data], self._offset(box, i))
            if got != rows.shape[1]:
                raise OSError(f"{self.path.name} ends at row {box.top + i}")
        return window

    def write(self, box: Box, pixels: Pixels) -> None:
        """One window, the same shape as `read` gives.

        Raises:
            OSError: The disk is full or failing.
        """
        rows = np.ascontiguousarray(pixels).reshape(self._pieces(box), -1)
        for i in range(len(rows)):
            if os.pwrite(self._fd, rows[i].data, self._offset(box, i)) != rows.shape[1]:
                raise OSError(f"{self.path.name} took only a part of row {box.top + i}")

    def _pieces(self, box: Box) -> int:
        """Whole rows lie one behind the other and go as one piece."""
        return 1 if box.width == self.width else box.height

    def _offset(self, box: Box, row: int) -> int:
        return ((box.top + row) * self.width + box.left) * self.bands
