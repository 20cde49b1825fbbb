# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=... -DSOURCES=FILE -DOUTPUT=FILE -P generator_version.cmake: writes a source with the hash of the
# files that SOURCES lists, one a line. Names count, as contents do.
file(STRINGS ${SOURCES} paths)
set(all "")
foreach(path IN LISTS paths)
  file(SHA256 ${path} hash)
  file(RELATIVE_PATH name ${ROOT} ${path})
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 version "${all}")
set(text "// SPDX-License-Identifier: Apache-2.0
// Made by jit/generator_version.cmake.
#include \"jit/native/generator_version.h\"

namespace plimsoll::jit {
const char* generator_version() { return \"${version}\"; }
}  // namespace plimsoll::jit
")
file(WRITE ${OUTPUT} "${text}")
