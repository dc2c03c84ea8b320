"""A card's host: its journal of runs, and its calls to the API's internal endpoint."""
