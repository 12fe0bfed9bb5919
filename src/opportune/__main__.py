"""`python -m opportune`: the command, for systems where it is not on the path."""

from opportune.cli.main import main

if __name__ == "__main__":
    main()
