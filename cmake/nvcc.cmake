# CARAT_NVCC: the compiler of the kernels, or empty for a build for the CPU alone; and
# CARAT_NVCC_ARCHITECTURES: what it can compile for, as compute_75 ...; CARAT_NVCC_HOST: the options by
# which it gets along with this machine's C++ compiler; CARAT_NVCC_STRICT: what it is to refuse;
# CARAT_NVCC_SMALL: how its images become small; CARAT_NVCC_QUICK: how it reads no more than the kernels need.
set(CARAT_NVCC "")
if(NOT CARAT_CUDA STREQUAL "OFF")
    find_program(CARAT_NVCC_PROGRAM nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    if(CARAT_NVCC_PROGRAM)
        set(CARAT_NVCC ${CARAT_NVCC_PROGRAM})
    elseif(CARAT_CUDA STREQUAL "ON")
        message(FATAL_ERROR "CARAT_CUDA is ON, but no nvcc was found. Add it to PATH, or set CARAT_NVCC_PROGRAM.")
    endif()
endif()

# nvcc reads kernels through a C++ compiler of the host, and refuses one newer than itself. The kernels hold
# no host code, so its version does not matter: the first way that compiles an empty kernel will do.
set(CARAT_NVCC_HOST "")
if(CARAT_NVCC)
    set(probe ${PROJECT_BINARY_DIR}/nvcc_probe)
    file(WRITE ${probe}.cu "#include <assert.h>\n#include <stdint.h>\nextern \"C\" __global__ void probe(void) {}\n")
    foreach(way "" "-allow-unsupported-compiler" "-allow-unsupported-compiler;-ccbin;clang++-14")
        execute_process(COMMAND ${CARAT_NVCC} -fatbin -std=c++17 ${way} -o ${probe}.fatbin ${probe}.cu
            RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
        if(failed AND NOT DEFINED first_said)
            set(first_said "${said}")
        elseif(NOT failed)
            set(CARAT_NVCC_HOST ${way})
            break()
        endif()
    endforeach()
    if(failed)
        if(CARAT_CUDA STREQUAL "ON")
            set(level FATAL_ERROR)
        else()
            set(level WARNING)
        endif()
        message(${level} "${CARAT_NVCC} cannot compile an empty kernel, so there will be no CUDA kernels. It needs a "
            "C++ compiler of the host (Debian and Ubuntu: g++, or clang-14). It says:\n${first_said}")
        set(CARAT_NVCC "")
    endif()
endif()

if(CARAT_NVCC)
    execute_process(COMMAND ${CARAT_NVCC} --list-gpu-arch OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX MATCHALL "compute_[0-9]+a?" CARAT_NVCC_ARCHITECTURES "${listed}")
    execute_process(COMMAND ${CARAT_NVCC} --version OUTPUT_VARIABLE listed)
    string(REGEX MATCH "release ([0-9.]+)" matched "${listed}")
    set(CARAT_NVCC_VERSION ${CMAKE_MATCH_1})
    if(CARAT_NVCC_VERSION VERSION_GREATER_EQUAL 12.0)
        list(APPEND CARAT_NVCC_ARCHITECTURES compute_90a)
    endif()
    # Warnings and spilled registers are errors with the nvcc that the kernels are tuned with. Another one may
    # spill a few, which costs only speed.
    set(CARAT_NVCC_STRICT "")
    if(CARAT_NVCC_VERSION VERSION_EQUAL 13.0)
        set(CARAT_NVCC_STRICT -Werror all-warnings -Xptxas -warn-spills,-warn-lmem-usage)
    endif()
    # Compressed for size, images take a fifth of the bytes. The option is of nvcc 12.8, but drivers before that of
    # CUDA 12.4 cannot read such images. nvcc 12 makes images for all drivers of CUDA 12, and has to go on with that;
    # those of nvcc 13 want a driver of CUDA 13 anyway, so there it costs no driver.
    set(CARAT_NVCC_SMALL "")
    if(CARAT_NVCC_VERSION VERSION_GREATER_EQUAL 13.0)
        set(CARAT_NVCC_SMALL --compress-mode=size)
    endif()
    # nvcc includes cuda_runtime.h before every file. The one of kernels/nvcc stands in the toolkit's place, where this
    # nvcc gets along with it: the kernels come out the same, and reading the other takes longer than a small one.
    # It includes parts of the toolkit's headers that are nobody's business, so only what it was tried with gets it.
    set(CARAT_NVCC_QUICK "")
    if(CARAT_NVCC_VERSION VERSION_GREATER_EQUAL 13.0 AND CARAT_NVCC_VERSION VERSION_LESS 14)
        set(CARAT_NVCC_QUICK -I${PROJECT_SOURCE_DIR}/kernels/nvcc)
    endif()
    execute_process(COMMAND ${CARAT_NVCC} -fatbin -std=c++17 ${CARAT_NVCC_HOST} ${CARAT_NVCC_QUICK} -o ${probe}.fatbin
        ${PROJECT_SOURCE_DIR}/cmake/nvcc_probe.cu RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
        set(CARAT_NVCC_QUICK "")
    endif()
    message(STATUS "CUDA kernels: nvcc ${CARAT_NVCC_VERSION} (${CARAT_NVCC})")
else()
    message(STATUS "CUDA kernels: none, this build is for the CPU alone. To add them, install the CUDA toolkit "
        "(nvcc 11.8 or later) and configure again.")
endif()
