# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for scripts/jax_libraries_tests.sh: tests run on the platform that JAX_PLATFORMS
names first, also where a suite's own configuration asks for another."""

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    import jax

    platform = os.environ["JAX_PLATFORMS"].split(",")[0]
    jax.config.update("jax_platform_name", platform)
    if jax.default_backend() != platform:
        pytest.fail(f"runs on {jax.default_backend()}, not on {platform}", pytrace=False)
