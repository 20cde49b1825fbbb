# SPDX-License-Identifier: Apache-2.0
# Fails unless the text of SOURCE, but for its first line, stands in DOCUMENT.
file(READ ${SOURCE} source)
string(REGEX REPLACE "^[^\n]*\n" "" source "${source}")
file(READ ${DOCUMENT} document)
string(FIND "${document}" "${source}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${DOCUMENT} does not have ${SOURCE} as it is")
endif()
