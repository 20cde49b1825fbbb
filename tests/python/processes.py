# SPDX-License-Identifier: Apache-2.0
"""Programs in processes of their own."""

import os
import subprocess
import sys


def printed(program, **environment):
    """What a program prints; an error of it is the test's."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
