# The kernels of the catalogue, compiled for the CPU: the object library cpu_kernels, one object a row
# and a table of them. Rows that cannot run there are in a table of their own, with the reason.

# A kernel may move a NULL pointer that it does not read, as on the GPU; what it reads is checked.
set(CARAT_CPU_KERNEL_OPTIONS -DCUDA_ON_CPU -ffp-contract=off -fno-strict-aliasing
    -fno-sanitize=pointer-overflow -Wall -Wextra
    -Wno-unknown-pragmas -Wno-unused-function -Wno-unused-parameter -Wno-sign-compare)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # Spaces between the variables of a named section, so that running past a shared array is seen.
    list(APPEND CARAT_CPU_KERNEL_OPTIONS -fsanitize-sections=shared_*)
elseif(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    # Loops that the kernels unroll for the GPU would make the sanitized objects huge.
    list(APPEND CARAT_CPU_KERNEL_OPTIONS "SHELL:-mllvm -pragma-unroll-threshold=1" -Wno-pass-failed)
endif()

# The source of one row: its constants, and row.c.
function(carat_cpu_row row file)
    string(REPLACE "|" ";" fields "${row}")
    list(GET fields 1 source)
    carat_row_definitions("${row}" definitions)
    set(content "/* Made by tests/cpu_run/cpu_run.cmake from kernels/catalog.txt. */\n")
    foreach(definition IN LISTS definitions)
        string(REGEX REPLACE "^-D([A-Z0-9_]+)=(.*)$" "#define \\1 \\2\n" definition "${definition}")
        string(APPEND content "${definition}")
    endforeach()
    string(APPEND content "#define KERNEL_SOURCE \"${PROJECT_SOURCE_DIR}/kernels/${source}\"\n")
    string(APPEND content "#include \"${PROJECT_SOURCE_DIR}/tests/cpu_run/row.c\"\n")
    file(GENERATE OUTPUT ${file} CONTENT "${content}")
endfunction()

# A library of some rows: the object library `name` with a table of its own.
function(carat_cpu_kernels name rows)
    set(sources "")
    set(declarations "")
    set(entries "")
    set(left_out "")
    set(left_out_count 0)
    set(count 0)
    foreach(row IN LISTS rows)
        string(REPLACE "|" ";" fields "${row}")
        list(POP_FRONT fields kernel source arch)
        set(reason "")
        if(arch MATCHES "a$")
            set(reason "its instructions exist on one architecture only, and have no meaning on the CPU")
        elseif("OPERATION=CEILING" IN_LIST fields)
            set(reason "it measures an instruction's rate, and computes nothing that could be checked")
        endif()
        if(reason)
            string(APPEND left_out "    {\"${kernel}\", \"${reason}\"},\n")
            math(EXPR left_out_count "${left_out_count} + 1")
            continue()
        endif()
        carat_cpu_row("${row}" ${CMAKE_CURRENT_BINARY_DIR}/rows/${kernel}.c)
        list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/rows/${kernel}.c)
        string(APPEND declarations "extern const struct cpu_kernel cpu_kernel_${kernel};\n")
        string(APPEND entries "    &cpu_kernel_${kernel},\n")
        math(EXPR count "${count} + 1")
    endforeach()
    # The last entries are for C's sake, which has no empty arrays.
    file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}_table.c CONTENT
        "/* Made by tests/cpu_run/cpu_run.cmake from kernels/catalog.txt. */\n#include \"cpu_run.h\"\n\n${declarations}
const struct cpu_kernel *const cpu_kernels[] = {\n${entries}    NULL};\nconst int cpu_kernel_count = ${count};\n
const struct cpu_left_out cpu_left_out[] = {\n${left_out}    {NULL, NULL}};\nconst int cpu_left_out_count = ${left_out_count};\n")
    add_library(${name} OBJECT ${sources} ${CMAKE_CURRENT_BINARY_DIR}/${name}_table.c
        ${CMAKE_CURRENT_SOURCE_DIR}/cpu_run/cuda_on_cpu.c)
    # A row in a shared object (mutation/) finds the runner in the program.
    set_source_files_properties(cpu_run/cuda_on_cpu.c PROPERTIES COMPILE_OPTIONS -fvisibility=default)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/kernels/common
        PUBLIC ${PROJECT_SOURCE_DIR}/tests/cpu_run)
    target_compile_options(${name} PRIVATE ${CARAT_SANITIZE} ${CARAT_CPU_KERNEL_OPTIONS})
    target_link_libraries(${name} PUBLIC Threads::Threads m)
endfunction()

carat_cpu_kernels(cpu_kernels "${CARAT_ROWS}")

# The runner's own test, on kernels of its own, some of them wrong.
set(samples "")
foreach(sample RIGHT NO_BARRIER BARRIER_OF_SOME RETURN_OF_SOME PAST_SHARED PAST_GLOBAL COPY_RIGHT COPY_NO_WAIT
        COPY_UNALIGNED COPY_PAST_GLOBAL WARP_RIGHT WARP_NO_BARRIER SHARED_UNSET DYNAMIC_RIGHT DYNAMIC_PAST
        COPY_TOO_SOON MMA_RIGHT MMA_OF_SOME LDMATRIX_RIGHT LDMATRIX_UNALIGNED MMA_NO_TF32 VERDICT)
    string(TOLOWER ${sample} name)
    list(APPEND samples "sample_${name}|../tests/cpu_run/samples.cu|75|OPERATION=SCALE_ADD|THREADS_X=64|SAMPLE=${sample}")
endforeach()
carat_cpu_kernels(cpu_samples "${samples}")
