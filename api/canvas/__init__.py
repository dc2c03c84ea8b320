"""The surface of a canvas product's browser: `/api/proxy/v1`."""

PREFIX = "/api/proxy/v1"
