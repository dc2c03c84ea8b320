"""One run of `image_upscale`: decode, enlarge tile by tile, encode. Blocking; runs in a thread of its own."""

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from infra.engines.native.alpha import FILL_STEPS, enlarge_alpha, spread_colours
from infra.engines.native.geometry import RGBA_BANDS, Pixels, Tile, cross_fade
from infra.engines.native.networks import NETWORKS, Network, NetworkSpec, halve, network_files, trim_memory
from infra.engines.native.picture import Decoded, decode
from infra.engines.native.png import write_png
from infra.engines.native.raster import Raster

DECODED_AT = 0.02
TILED_AT = 0.95
"""Fractions of a run at which decoding and tiling end; encoding takes the rest."""
MIB = 1024 * 1024
ENCODED_AT = 0.99
"""A run never says 1 by itself: that is for a result that is stored."""


class Stopped(Exception):
    """Progress said to stop."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to do.

    Attributes:
        source: The picture.
        target: Where the PNG goes.
        scratch: Prefix for raw files; they are removed at the end, however it ends.
        mode: `fast` or `photo`.
        scale: 2 or 4.
    """

    source: Path
    target: Path
    scratch: Path
    mode: str
    scale: int


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network in memory.

    Attributes:
        name: Of its files.
        mib: By how much this process grew when it was loaded; at least the size of its weights.
        load_s: Seconds that loading took.
    """

    name: str
    mib: int
    load_s: float


class Upscaler:
    """Keeps the network of the last run, since the next is likely to want it."""

    def __init__(self, *, threads: int) -> None:
        """Load nothing yet."""
        self._threads = threads
        self._network: Network | None = None
        self.loaded: LoadedNetwork | None = None

    def run(self, job: Job, progress: Callable[[float], bool]) -> None:
        """Do the job. `progress` hears a rising fraction below 1 and answers False to stop.

        Raises:
            Stopped: Progress said so.
            PictureBroken: The input can't be decoded.
            OSError: The disk is full or failing.
            MemoryError: There isn't enough memory.
            NetworkMissing: The networks aren't installed.
        """
        source_raw, target_raw = job.scratch.with_suffix(".in.raw"), job.scratch.with_suffix(".out.raw")
        partial = job.target.with_suffix(".part")

        def tell(fraction: float) -> None:
            if not progress(fraction):
                raise Stopped

        try:
            network = self.load(NETWORKS[job.mode, job.scale])
            decoded = decode(job.source, source_raw, lambda done: tell(done * DECODED_AT))
            enlarged = self._enlarge(network, job, decoded, target_raw, tell)
            source_raw.unlink()
            with enlarged.open():
                write_png(
                    enlarged,
                    partial,
                    decoded.profile,
                    lambda done: tell(TILED_AT + done * (ENCODED_AT - TILED_AT)),
                    threads=self._threads,
                )
            partial.replace(job.target)  # the result exists whole or not at all
        finally:
            for path in (source_raw, target_raw, partial):
                path.unlink(missing_ok=True)

    def unload(self) -> None:
        """Drop the network and give memory back; the next run loads again (33 MiB: 0.2 s)."""
        if self._network is not None:
            self._network.close()
            self._network = self.loaded = None
        gc.collect()
        trim_memory()

    def load(self, spec: NetworkSpec) -> Network:
        """Have this network in memory, in place of another.

        Raises:
            NetworkMissing: Its files aren't there.
            MemoryError: It can't be loaded.
        """
        if self._network is None or self._network.spec.file != spec.file:
            self.unload()
            before, began = resident_bytes(), time.monotonic()
            self._network = Network(spec, threads=self._threads)
            grown = max(resident_bytes() - before, network_files(spec.file)[1].stat().st_size)
            self.loaded = LoadedNetwork(spec.file, -(-grown // MIB), round(time.monotonic() - began, 3))
        return self._network

    def _enlarge(
        self, network: Network, job: Job, decoded: Decoded, target: Path, tell: Callable[[float], None]
    ) -> Raster:
        stored = decoded.raster
        width, height = decoded.orientation.upright_size(stored.width, stored.height)
        tiling = network.spec.tiling
        total = tiling.count(width, height)
        enlarged = Raster(target, width=width * job.scale, height=height * job.scale, bands=stored.bands)
        with stored.open(), enlarged.create():
            try:
                for done, tile in enumerate(tiling.tiles(width, height), start=1):
                    pixels = _enlarge_tile(network, decoded, tile, scale=job.scale)
                    _place(enlarged, tile, pixels, scale=job.scale)
                    tell(DECODED_AT + done / total * (TILED_AT - DECODED_AT))
            finally:
                network.rest()
        return enlarged


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _enlarge_tile(network: Network, decoded: Decoded, tile: Tile, *, scale: int) -> Pixels:
    """The kept part of one tile, upright and enlarged."""
    stored = decoded.raster
    width, height = decoded.orientation.upright_size(stored.width, stored.height)
    margin = FILL_STEPS if stored.bands == RGBA_BANDS else 0
    seen = tile.seen.grown(margin, width=width, height=height)
    box = decoded.orientation.stored_box(seen, width=stored.width, height=stored.height)
    window = decoded.orientation.turn(stored.read(box))
    colours = spread_colours(window) if stored.bands == RGBA_BANDS else window
    shown = tile.seen.within(seen)
    pixels = network.enlarge(colours[shown.top : shown.bottom, shown.left : shown.right])
    if network.spec.factor != scale:
        pixels = halve(pixels)
    kept = tile.kept.within(tile.seen).scaled(scale)
    pixels = pixels[kept.top : kept.bottom, kept.left : kept.right]
    if stored.bands == RGBA_BANDS:
        alpha = enlarge_alpha(np.ascontiguousarray(window[:, :, 3]), scale)
        kept = tile.kept.within(seen).scaled(scale)
        alpha = alpha[kept.top : kept.bottom, kept.left : kept.right]
        pixels = np.dstack((pixels, alpha))
    return pixels


def _place(enlarged: Raster, tile: Tile, pixels: Pixels, *, scale: int) -> None:
    box = tile.kept.scaled(scale)
    if tile.fade_left or tile.fade_top:
        # What the neighbours wrote is read back, so that nothing but a tile is in memory.
        pixels = cross_fade(
            enlarged.read(box), pixels, fade_left=tile.fade_left * scale, fade_top=tile.fade_top * scale
        )
    enlarged.write(box, pixels)
