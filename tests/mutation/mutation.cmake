# The test of the kernels' tests: see mutate.py. Every barrier and a share of the bounds, or all of them with
# CARAT_ALL_MUTANTS.
option(CARAT_ALL_MUTANTS "Run all mutants of the kernels in the tests, not a part of them" OFF)
find_package(Python3 COMPONENTS Interpreter REQUIRED)

set(mutant_flags -std=gnu11 ${CARAT_SANITIZE} ${CARAT_CPU_KERNEL_OPTIONS})
list(REMOVE_ITEM mutant_flags -g1)
list(TRANSFORM mutant_flags REPLACE "^SHELL:" "")
string(REPLACE ";" " " mutant_flags "${mutant_flags}")
set(mutant_share 64)
set(mutant_timeout 3600)
if(CARAT_ALL_MUTANTS)
    set(mutant_share 1)
    set(mutant_timeout 36000)
endif()
add_test(NAME mutation COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/mutation/mutate.py
    --source ${PROJECT_SOURCE_DIR} --runner $<TARGET_FILE:test_cuda_kernels> --cc ${CMAKE_C_COMPILER}
    --flags ${mutant_flags} --every ${mutant_share})
set_tests_properties(mutation PROPERTIES TIMEOUT ${mutant_timeout} LABELS slow)
