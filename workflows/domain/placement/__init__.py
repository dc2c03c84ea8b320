"""Which waiting generation gets which card: a pure function over (now, cards, waiting)."""
