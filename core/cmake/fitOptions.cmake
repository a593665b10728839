# What holds for all targets of fit. The macros set variables of the top folder, which the others inherit.

# fit alone is Release with warnings. A project around it chooses for itself.
macro(fit_settings_of_a_project_alone)
  if(PROJECT_IS_TOP_LEVEL)
    if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
      set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
    endif()
    add_compile_options(-Wall -Wextra -Wpedantic $<$<BOOL:${FIT_WERROR}>:-Werror>)
    # libstdc++ itself calls in std::stable_sort() what it calls deprecated, and clang 19 says so.
    add_compile_options($<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
    # g++ otherwise spends a tenth of the time for a group of sources on collecting garbage.
    if(FIT_UNITY)
      add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
    endif()
  endif()
endmacro()

# A project around fit may have no build type. CMake then compiles without optimisation, so fit's own targets get the
# options of Release.
macro(fit_optimised_without_a_build_type)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    message(STATUS "fit is optimised, although CMAKE_BUILD_TYPE is not set: set it to Debug to debug fit itself")
    set(fit_optimization -O3 -DNDEBUG)
  endif()
endmacro()

# The checked containers of libstdc++ have another layout, and libc++ has containers of its own. fit must be compiled with
# the same setting as the program; the definition lets its headers check this.
macro(fit_same_containers_as_programs)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" fit_config)
  get_directory_property(fit_definitions COMPILE_DEFINITIONS)
  set(fit_definitions "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${fit_config}} ${fit_definitions} ")
  if(fit_definitions MATCHES "_GLIBCXX_DEBUG[ =;]")
    set(fit_glibcxx_debug FIT_GLIBCXX_DEBUG)
    add_compile_definitions(${fit_glibcxx_debug})
  endif()
  if(fit_definitions MATCHES "-stdlib=libc\\+\\+")
    set(fit_libcxx FIT_LIBCXX)
    add_compile_definitions(${fit_libcxx})
  endif()
endmacro()

# Sanitizers and analysers need kernels of one instruction set alone; `native` is the widest one of this machine.
macro(fit_instruction_sets)
  if(FIT_ONLY_ISA STREQUAL native)
    set(FIT_ONLY_ISA "")
    if(EXISTS /proc/cpuinfo AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      file(STRINGS /proc/cpuinfo fit_flags REGEX "^flags" LIMIT_COUNT 1)
      set(FIT_ONLY_ISA base)
      if(fit_flags MATCHES " avx2 .* fma | fma .* avx2 ")
        set(FIT_ONLY_ISA avx2)
      endif()
      if(fit_flags MATCHES " avx512bw " AND fit_flags MATCHES " avx512dq " AND fit_flags MATCHES " avx512vl ")
        set(FIT_ONLY_ISA avx512)
      endif()
    endif()
  endif()
  set(fit_isas base)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(fit_isas base avx2 avx512)
    set(fit_isa_flags_avx2 -mavx2 -mfma)
    set(fit_isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512)
    # Processors older than 2013 run the base set. -Os makes programs a twentieth smaller than -O1 does.
    set(fit_isa_flags_base -Os)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(fit_isas neon)
    set(fit_isa_flags_neon -Wno-psabi)  # no notes about a change since GCC 9
    # Files without kernels round by operation, as on x86-64, where the baseline has no instruction for a product and a sum.
    set(fit_plain_flags -ffp-contract=off)
  endif()
  if(FIT_ONLY_ISA)
    set(fit_isas ${FIT_ONLY_ISA})
    add_compile_definitions(FIT_ONLY_ISA=${FIT_ONLY_ISA} FIT_ONLY_ISA_TAG=isa_${FIT_ONLY_ISA})
  endif()
endmacro()

# xsimd shifts negative numbers, which C++20 allows. It also converts numbers to integers that it then discards. So kernels
# are compiled without these two checks.
macro(fit_sanitizers)
  if(FIT_SANITIZE)
    set(fit_sanitize -fsanitize=${FIT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(FIT_NO_SANITIZE)
      list(APPEND fit_sanitize -fno-sanitize=${FIT_NO_SANITIZE})
    endif()
    set(fit_sanitize_kernels ${fit_sanitize} -fno-sanitize=shift-base,float-cast-overflow)
    # Functions check the accesses of kernels: these compile in half the time of checks in line.
    if(FIT_SANITIZE MATCHES address)
      list(APPEND fit_sanitize_kernels -mllvm -asan-instrumentation-with-call-threshold=0)
    endif()
  endif()
endmacro()
