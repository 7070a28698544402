"""Private combinatorial optimisation, one folder per problem."""
