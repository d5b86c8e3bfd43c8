"""`python -m attnbench` is the command `attnbench`."""

from attnbench.cli.app import main

if __name__ == "__main__":
    main()
