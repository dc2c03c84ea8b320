"""The surface of a canvas product's browser: `/api/proxy/v1`."""

from api.core.surface import CANVAS

PREFIX = CANVAS.prefix
