"""Classes of queries, and what theory says about answering them."""
