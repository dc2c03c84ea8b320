"""The network without a platform: `python -m workers.bench.bare_upscale THREADS`.

The same network, tiles, threads, decoder and encoder as the native engine's, in a plain loop with the
pictures in memory. Reads one JSON order a line, answers the seconds it took, ends with its stdin.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyvips

from infra.engines.native.networks import NETWORKS, Network


@dataclass(frozen=True, slots=True)
class Order:
    """One picture to enlarge, RGB without alpha."""

    source: str
    target: str
    mode: str
    scale: int

    def line(self) -> bytes:
        """As it goes over the pipe."""
        return json.dumps(asdict(self)).encode() + b"\n"


def upscale(order: Order, network: Network) -> None:
    """Decode, enlarge tile by tile, encode. Only for networks whose tiles aren't blended."""
    pixels = pyvips.Image.new_from_file(order.source, access="sequential", fail_on="truncated").numpy()
    height, width, _ = pixels.shape
    scale = order.scale
    enlarged = np.empty((height * scale, width * scale, 3), np.uint8)
    for tile in network.spec.tiling.tiles(width, height):
        seen, kept = tile.seen, tile.kept
        window = network.enlarge(pixels[seen.top : seen.bottom, seen.left : seen.right])
        cut, place = kept.within(seen).scaled(scale), kept.scaled(scale)
        enlarged[place.top : place.bottom, place.left : place.right] = window[
            cut.top : cut.bottom, cut.left : cut.right
        ]
    network.rest()
    pyvips.Image.new_from_array(enlarged).pngsave(order.target, compression=3, filter="sub")


def main(threads: int) -> None:
    """Serve orders until stdin ends."""
    loaded: dict[str, Network] = {}
    for line in sys.stdin:
        order = Order(**json.loads(line))
        spec = NETWORKS[order.mode, order.scale]
        network = loaded.get(spec.file) or Network(spec, threads=threads)
        loaded[spec.file] = network
        began = time.perf_counter()
        upscale(order, network)
        sys.stdout.write(json.dumps({"seconds": time.perf_counter() - began}) + "\n")
        sys.stdout.flush()
        Path(order.target).unlink()


if __name__ == "__main__":
    main(int(sys.argv[1]))
