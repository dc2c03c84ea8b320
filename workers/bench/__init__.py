"""What the platform costs, measured beside the bare parts that it is made of, in one run on one machine."""
