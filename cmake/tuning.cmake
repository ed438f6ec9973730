# carat_tuning_tables(FILE): writes a C file that embeds every table of tuning/, as carat_tunings.

function(carat_tuning_tables file)
    file(GLOB tables CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tuning/*.txt)
    # The C file changes with every table, so that it is compiled anew.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tables})
    set(assembly "")
    set(declarations "")
    set(entries "")
    set(number 0)
    foreach(table IN LISTS tables)
        get_filename_component(name ${table} NAME)
        file(SHA256 ${table} hash)
        set(symbol carat_tuning_${number})
        math(EXPR number "${number} + 1")
        string(APPEND assembly
            "        \".hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n.incbin \\\"${table}\\\"\\n\"\n"
            "        \".hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n\"\n")
        string(APPEND declarations "extern const char ${symbol}[], ${symbol}_end[];\n")
        string(APPEND entries "    {\"tuning/${name}\", ${symbol}, ${symbol}_end}, /* ${hash} */\n")
    endforeach()
    set(content "/* Made by cmake/tuning.cmake from tuning/. */\n#include \"tuning.h\"\n\n")
    if(assembly)
        string(APPEND content "__asm__(\".section .rodata\\n\"\n${assembly}        \".previous\\n\");\n\n${declarations}\n")
    endif()
    string(APPEND content "const struct tuning_source carat_tunings[] = {\n${entries}    {NULL, NULL, NULL},\n};\n")
    file(GENERATE OUTPUT ${file} CONTENT "${content}")
endfunction()
