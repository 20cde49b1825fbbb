# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
# Installs the library into a folder, and fails unless a program elsewhere finds it there by its
# version, by find_package and by pkg-config, builds and runs.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/app/main.c "
#include <plimsoll/plimsoll.h>
int main(void) {
  plm_context* context = NULL;
  plm_tensor* two = NULL;
  if (plm_context_create(NULL, &context) != NULL) return 1;
  if (plm_scalar(context, PLM_F32, 2, &two) != NULL) return 2;
  plm_tensor_release(two);
  plm_context_destroy(context);
  return plm_version() >> 16 == PLM_VERSION_MAJOR ? 0 : 3;
}
")
file(WRITE ${WORK}/app/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES C CXX)
find_package(plimsoll ${VERSION} REQUIRED)
find_package(plimsoll 99 QUIET)
if(plimsoll_FOUND)
  message(FATAL_ERROR \"a version that is not there was found\")
endif()
find_package(plimsoll ${VERSION} REQUIRED)
add_executable(app main.c)
target_link_libraries(app PRIVATE plimsoll::plimsoll)
")
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${WORK}/app -B ${WORK}/by_package -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/by_package)
run(${WORK}/by_package/app)

find_program(pkg_config pkg-config)
if(NOT pkg_config)
  message("pkg-config is not here: its file was not tried")
  return()
endif()
file(GLOB_RECURSE description ${WORK}/prefix/*/plimsoll.pc)
get_filename_component(folder ${description} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(${pkg_config} --exact-version=${FULL_VERSION} plimsoll)
run(${pkg_config} --cflags --libs plimsoll)
string(STRIP "${output}" flags)
separate_arguments(flags)
run(${pkg_config} --variable=libdir plimsoll)
string(STRIP "${output}" libraries)
run(${CC} ${WORK}/app/main.c -o ${WORK}/by_pkg_config ${flags} -Wl,-rpath,${libraries})
run(${WORK}/by_pkg_config)
