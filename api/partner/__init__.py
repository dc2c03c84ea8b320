"""The surface of other companies' servers: `/v1`, with API keys. The canvas' handlers, at other addresses."""
