"""The words that every room shares: frozen messages, states, failure codes, queue names, activity ports."""
