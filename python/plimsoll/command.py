# SPDX-License-Identifier: Apache-2.0
"""The console script `plimsoll`."""

import os
import sys

from ._library import command_path


def main() -> None:
    """Becomes the command, with this process's arguments; does not return."""
    path = command_path()
    os.execv(path, [path, *sys.argv[1:]])
