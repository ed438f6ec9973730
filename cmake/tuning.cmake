# carat_tuning_tables(FILE LEARN [HOW]): writes a C file with what the program LEARN makes of every table of tuning/, as
# carat_tunings; of none where LEARN is "". HOW is an argument of LEARN's behind these.

function(carat_tuning_tables file learn)
    set(tables "")
    if(learn)
        file(GLOB tables CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tuning/*.txt)
    endif()
    set(images "")
    set(assembly "")
    set(declarations "")
    set(entries "")
    # A table may add to another one, which its line 'over' names by the device.
    foreach(table IN LISTS tables)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
        file(STRINGS ${table} device REGEX "^device " LIMIT_COUNT 1)
        file(STRINGS ${table} over REGEX "^over " LIMIT_COUNT 1)
        get_filename_component(name ${table} NAME_WE)
        string(REGEX REPLACE "^device +" "" device "${device}")
        string(REGEX REPLACE "^over +" "" over "${over}")
        if(over STREQUAL device)
            continue() # it adds to the one that stands for the device
        endif()
        if(DEFINED "image_of_${device}")
            message(FATAL_ERROR "tuning/: two tables of ${device}; one may add to the other")
        endif()
        set("over_of_${device}" "${over}")
        set("image_of_${device}" ${CMAKE_CURRENT_BINARY_DIR}/tuning/${name}.image)
    endforeach()
    foreach(table IN LISTS tables)
        get_filename_component(name ${table} NAME_WE)
        set(image ${CMAKE_CURRENT_BINARY_DIR}/tuning/${name}.image)
        set(base "")
        file(STRINGS ${table} device REGEX "^device " LIMIT_COUNT 1)
        file(STRINGS ${table} over REGEX "^over " LIMIT_COUNT 1)
        string(REGEX REPLACE "^device +" "" device "${device}")
        string(REGEX REPLACE "^over +" "" over "${over}")
        if(over)
            if(NOT DEFINED "image_of_${over}" OR over_of_${over})
                message(FATAL_ERROR "tuning/${name}.txt adds to the table of ${over}, which is not there or itself adds to another: "
                                    "its lines can stand at that one's end")
            endif()
            set(base "${image_of_${over}}")
        endif()
        add_custom_command(
            OUTPUT ${image}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/tuning
            COMMAND ${learn} ${table} ${image} ${ARGN} ${base}
            DEPENDS ${learn} ${table} ${base}
            COMMENT "Learning from tuning/${name}.txt"
            VERBATIM)
        list(APPEND images ${image})
        string(MAKE_C_IDENTIFIER carat_tuning_${name} symbol)
        string(APPEND assembly
            "        \".balign 64\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n.incbin \\\"${image}\\\"\\n\"\n")
        string(APPEND declarations "extern const unsigned char ${symbol}[];\n")
        string(APPEND entries "${symbol}, ")
    endforeach()
    set(content "/* Made by cmake/tuning.cmake from tuning/. */\n#include \"tuning.h\"\n\n")
    if(assembly)
        string(APPEND content "__asm__(\".section .rodata\\n\"\n${assembly}        \".previous\\n\");\n\n${declarations}\n")
    endif()
    string(APPEND content "const unsigned char *const carat_tunings[] = {${entries}NULL};\n")
    file(GENERATE OUTPUT ${file} CONTENT "${content}")
    set_source_files_properties(${file} PROPERTIES OBJECT_DEPENDS "${images}")
endfunction()
