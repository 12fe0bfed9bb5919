"""`python -m opportune`: the command, where it is not on the path."""

from opportune.cli.main import main

if __name__ == "__main__":
    main()
