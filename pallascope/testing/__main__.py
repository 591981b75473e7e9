"""`python -m pallascope.testing`: see `command`."""

import sys

from pallascope.testing.command import main

if __name__ == "__main__":
    sys.exit(main())
