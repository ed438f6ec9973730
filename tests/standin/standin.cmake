# standin: a library that takes the CUDA driver's place in tests. And standin_catalog: the catalogue with
# images that it understands.

add_library(standin SHARED standin/device.c standin/memory.c standin/streams.c $<TARGET_OBJECTS:cpu_kernels>)
target_include_directories(standin PRIVATE cpu_run PUBLIC standin)
target_compile_options(standin PRIVATE ${CARAT_SANITIZE})
target_link_options(standin PRIVATE -fsanitize=address,undefined)
target_link_libraries(standin PRIVATE carat_warnings Threads::Threads m)

# A driver that lacks functions.
add_library(standin_incomplete SHARED standin/incomplete.c)
target_link_libraries(standin_incomplete PRIVATE carat_warnings)

set(rows "")
set(images "")
foreach(row IN LISTS CARAT_ROWS)
    string(REPLACE "|" ";" fields "${row}")
    list(POP_FRONT fields name source arch)
    string(REGEX MATCH "^[0-9]+" least "${arch}")
    carat_row_initializer("${row}" image_${name} text)
    string(APPEND rows "${text}")
    string(APPEND images "static const unsigned char image_${name}[] = \"stand-in image of ${name} for ${least}\";\n"
        "#define image_${name}_end (image_${name} + sizeof image_${name})\n")
endforeach()
set(standin_catalog ${CMAKE_CURRENT_BINARY_DIR}/standin_catalog.c)
file(GENERATE OUTPUT ${standin_catalog} CONTENT
    "/* Made by tests/standin/standin.cmake from kernels/catalog.txt. */\n#include \"catalog.h\"\n\n${images}
const struct kernel carat_catalog[] = {\n${rows}    {.name = NULL}};\n
const int carat_catalog_count = sizeof(carat_catalog) / sizeof(carat_catalog[0]) - 1;\n")
