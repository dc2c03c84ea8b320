"""Bodies that carry files: streamed to disk within limits, and gone afterwards."""
