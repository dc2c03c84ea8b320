"""The simulator: arrivals replayed against a described fleet, through the placement code that production runs."""
