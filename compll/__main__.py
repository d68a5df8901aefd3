"""`python -m compll`: the command line."""

from __future__ import annotations

from compll.cli import main

if __name__ == "__main__":
    main()
