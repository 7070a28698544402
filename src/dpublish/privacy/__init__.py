"""Privacy costs, how one cost is split, and plans."""
