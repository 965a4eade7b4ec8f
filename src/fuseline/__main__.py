"""``python -m fuseline``: the command line."""

from fuseline.cli.main import main

if __name__ == "__main__":
    main()
