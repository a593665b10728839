# The libraries: core, nn above it, hub and plot above both. A layer is compiled in groups of sources with the same
# options, fit_sources(); fit_layer() makes a library of them.

# fit_headers(LAYER HEADERS...) lets the sources of this layer and of those above it include these public headers. A shared
# library exports only what public headers declare. Everything is compiled hidden. Sources find a wrapper of each header,
# which makes its declarations visible. The static libraries have the same objects, so they can be part of other shared
# libraries.
function(fit_headers layer)
  set(open ${PROJECT_BINARY_DIR}/open/${layer})
  foreach(header IN LISTS ARGN)
    string(REGEX REPLACE ".*/include/" "" name ${header})
    file(CONFIGURE OUTPUT ${open}/${name} @ONLY CONTENT [[
#pragma once
#pragma GCC visibility push(default)
#include "@header@"
#pragma GCC visibility pop
]])
  endforeach()
endfunction()

# fit_sources(TARGET SEES... SOURCES...) compiles sources, which see the headers of the layers SEES and no others.
function(fit_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SEES;SOURCES")
  add_library(${target} OBJECT ${arg_SOURCES})
  fit_group(${target} 12 ${arg_SOURCES})
  foreach(layer IN LISTS arg_SEES)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/open/${layer})
  endforeach()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/core)
  if(NOT arg_SEES STREQUAL core)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/nn)
  endif()
  target_link_libraries(${target} PRIVATE OpenBLAS::OpenBLAS ZLIB::ZLIB Threads::Threads xtensor nlohmann_json::nlohmann_json)
  fit_compile_as_library(${target})
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>  # as clang has it
    # Every operation reads the state of its thread. With this model, the read needs no call, also in a shared library. The
    # model suits small variables; the only large one has another (core/base/memory.cpp).
    -ftls-model=initial-exec ${fit_plain_flags} ${fit_sanitize})
endfunction()

# fit_kernels(LAYER SOURCES...) compiles kernels once for each instruction set (core/kernels/simd/isa.hpp). They see the
# headers of the layer and of core. Sets LAYER_kernels to their targets.
function(fit_kernels layer)
  foreach(isa IN LISTS fit_isas)
    set(target fit_${layer}_kernels_${isa})
    add_library(${target} OBJECT ${ARGN})
    fit_compile_as_library(${target})
    # The names of two functions of xsimd 8.1 lack the instruction set, so the linker would keep any one of the three. The
    # definitions give them other names. Without optimisation, functions of the standard library would have this problem, too.
    target_compile_definitions(${target} PRIVATE FIT_ISA=isa_${isa} FIT_ISA_NAMESPACE=${isa}
                               __kernel_rem_pio2=kernel_rem_pio2_${isa} __ieee754_rem_pio2=ieee754_rem_pio2_${isa})
    # Products and sums are fused where the source says so, and nowhere else: results are the same on every processor.
    target_compile_options(${target} PRIVATE ${FIT_KERNEL_OPTIMIZATION} ${fit_isa_flags_${isa}} -ffp-contract=off
                           ${fit_sanitize_kernels})
    # GCC 12 warns about its own header of AVX-512 (_mm512_undefined_ps and similar functions).
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
    target_include_directories(${target} PRIVATE . include ${PROJECT_SOURCE_DIR}/core ${PROJECT_SOURCE_DIR}/core/include)
    target_link_libraries(${target} PRIVATE xsimd)
    if(layer STREQUAL core)
      target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/core/kernels/simd/simd.hpp)
    else()
      target_precompile_headers(${target} REUSE_FROM fit_core_kernels_${isa})
    endif()
    list(APPEND targets ${target})
  endforeach()
  set(${layer}_kernels ${targets} PARENT_SCOPE)
endfunction()

# What kernels and other sources have in common. A program contains only the functions that it can reach. Three passes of g++
# take up to a sixth of its time; in 20 rows of the benchmark they change nothing beyond the noise.
function(fit_compile_as_library target)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections ${fit_optimization}
                         $<$<CXX_COMPILER_ID:GNU>:-fno-gcse;-fno-schedule-insns2;-fno-tree-pre>)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             POSITION_INDEPENDENT_CODE ON)
endfunction()

# What is not a kernel arranges what kernels compute, or waits for it. -O1 compiles it in two thirds of the time of -O3, and
# programs get smaller. Small functions are inlined, as from -O2 on, because every operation calls many.
function(fit_compile_quickly target)
  set(inlining -finline-functions -finline-small-functions -findirect-inlining -fpartial-inlining -fipa-sra
      -foptimize-sibling-calls -ftree-loop-distribute-patterns)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1> "$<$<CXX_COMPILER_ID:GNU>:${inlining}>")
endfunction()

# Half the time to compile most sources is the parsing of these headers.
function(fit_precompile target)
  target_precompile_headers(${target} PRIVATE <algorithm> <cmath> <cstring> <functional> <limits> <map> <memory> <mutex>
                            <sstream> <string> <unordered_map> <unordered_set> <utility> <vector> <fit/graph/graph.hpp> <fit/ops/ops.hpp>)
endfunction()

# fit_group(TARGET SIZE SOURCES...) compiles the files of one folder together, SIZE at a time. So names at file level differ
# within a folder. A file with options of its own stays alone.
function(fit_group target size)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FIT_UNITY} UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} DIRECTORY)
    if(NOT folder STREQUAL last_folder OR in_group EQUAL size)
      math(EXPR group "${group} + 1")
      set(in_group 0)
    endif()
    set(last_folder ${folder})
    math(EXPR in_group "${in_group} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${group})
  endforeach()
endfunction()

# fit_compile_like(TARGET OTHER) compiles TARGET as OTHER.
function(fit_compile_like target other)
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES LINK_LIBRARIES)
    get_target_property(value ${other} ${property})
    if(value)
      set_target_properties(${target} PROPERTIES ${property} "${value}")
    endif()
  endforeach()
endfunction()

# fit_layer(LAYER [ABOVE LAYER] OBJECTS TARGETS... HEADERS FILES...) makes fit::LAYER of what TARGETS compiled: an archive.
# Where shared libraries are built, all layers are one, libfit.so, because the upper ones call what core hides from
# programs; fit::LAYER then stands for its headers.
function(fit_layer layer)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ABOVE;OBJECTS;HEADERS")
  list(TRANSFORM arg_ABOVE PREPEND fit_ OUTPUT_VARIABLE above)
  list(TRANSFORM arg_OBJECTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  if(BUILD_SHARED_LIBS)
    add_library(fit_${layer} INTERFACE)
    target_link_libraries(fit_${layer} INTERFACE fit_shared ${above})
    target_sources(fit_shared PRIVATE ${arg_OBJECTS})
  else()
    add_library(fit_${layer} STATIC ${arg_OBJECTS})
    set_target_properties(fit_${layer} PROPERTIES LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    target_link_libraries(fit_${layer} PUBLIC ${above})
    target_link_options(fit_${layer} INTERFACE LINKER:--gc-sections)
  endif()
  add_library(fit::${layer} ALIAS fit_${layer})
  set_target_properties(fit_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_sources(fit_${layer} INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  set_property(GLOBAL APPEND PROPERTY fit_layers ${layer})
endfunction()

# libfit.so, whose objects the layers add. Its name contains the version with which programs were linked (fit/base/version.hpp).
function(fit_shared_library)
  add_library(fit_shared SHARED)
  set_target_properties(fit_shared PROPERTIES OUTPUT_NAME fit EXPORT_NAME shared LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                              SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(fit_shared PRIVATE OpenBLAS::OpenBLAS ZLIB::ZLIB Threads::Threads)
endfunction()
