# The warnings every C file of Carat compiles without.
add_library(carat_warnings INTERFACE)
target_compile_options(carat_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wconversion -Wno-sign-conversion)
if(CARAT_WERROR)
    target_compile_options(carat_warnings INTERFACE -Werror)
endif()
