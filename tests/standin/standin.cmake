# standin: a library that takes the CUDA driver's place in tests. The images of standin_catalog are those that it
# understands.

add_library(standin SHARED standin/device.c standin/memory.c standin/streams.c $<TARGET_OBJECTS:cpu_kernels>)
target_include_directories(standin PRIVATE cpu_run PUBLIC standin)
target_compile_options(standin PRIVATE ${CARAT_SANITIZE})
target_link_options(standin PRIVATE -fsanitize=address,undefined)
target_link_libraries(standin PRIVATE carat_warnings Threads::Threads m)

# A driver that lacks functions.
add_library(standin_incomplete SHARED standin/incomplete.c)
target_link_libraries(standin_incomplete PRIVATE carat_warnings)
