"""`python -m dpublish`, for where the console script is not on the path."""

from dpublish.cli.app import main

if __name__ == "__main__":
    main()
