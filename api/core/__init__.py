"""What every surface does alike: create, query, cancel, fetch. Surfaces differ in words and rights only."""
