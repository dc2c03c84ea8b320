"""Pure decisions, shared by workflows, the API and the simulator."""
