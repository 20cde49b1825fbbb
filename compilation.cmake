# SPDX-License-Identifier: Apache-2.0
# How sources are compiled: through a compiler cache, small ones of a room together.
find_program(PLIMSOLL_CCACHE ccache)
if(PLIMSOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${PLIMSOLL_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PLIMSOLL_CCACHE})
endif()
# Small sources of one room are compiled together (a unity build): most of what a compiler does is reading the same
# headers. OFF: one by one, as tools that look at single files want it.
option(PLIMSOLL_UNITY "Compile the sources of a room together" ON)
set(PLIMSOLL_UNITY_LINES 3000)  # at most about so many in one go, for two processors to share the work

# plimsoll_together(TARGET SOURCES...): compiles these sources of the target together.
function(plimsoll_together target)
  if(NOT PLIMSOLL_UNITY)
    return()
  endif()
  set(lines 0)
  set(group 0)
  foreach(source ${ARGN})
    file(STRINGS ${source} its_lines)
    list(LENGTH its_lines count)
    math(EXPR lines "${lines} + ${count}")
    if(lines GREATER PLIMSOLL_UNITY_LINES)
      math(EXPR group "${group} + 1")
      set(lines ${count})
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# plimsoll_compile_quickly(TARGET): for tests and for programs that read options and print: what they compute themselves
# takes no time, what the compiler makes of their macros and templates does.
function(plimsoll_compile_quickly target)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# plimsoll_guard_statics(TARGET): for a library of runtime/base. In what links it no process forks while a function's
# static is initialized (runtime/base/static_guards.cc).
function(plimsoll_guard_statics target)
  target_link_options(${target} INTERFACE
    -Wl,--wrap=__cxa_guard_acquire,--wrap=__cxa_guard_release,--wrap=__cxa_guard_abort)
endfunction()
