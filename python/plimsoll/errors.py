# SPDX-License-Identifier: Apache-2.0
"""The one exception that the library's errors are."""


class Error(RuntimeError):
    """What the library refused or failed at.

    code: "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED" and so on, as `plm_code` names them.
    message: `what failed: value (limit, remedy)`.
    limit_bytes, floor_bytes, culprit: of RESOURCE_EXHAUSTED alone: the limit in force, the smallest
    that would do, and what needs it; 0 and "" where they are not known.
    """

    def __init__(
        self,
        code: str,
        message: str,
        limit_bytes: int = 0,
        floor_bytes: int = 0,
        culprit: str = "",
    ):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.limit_bytes = limit_bytes
        self.floor_bytes = floor_bytes
        self.culprit = culprit

    def __reduce__(self):
        return Error, (self.code, self.message, self.limit_bytes, self.floor_bytes, self.culprit)
