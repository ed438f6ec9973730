# Reads kernels/catalog.txt, and gives
#   carat_catalog_table(OUTPUT FILE IMAGES DIRECTORY|"" TARGETS VAR)
# the C table of all rows, and, where nvcc is there, one fat binary a row, of rows with PLAIN=1, FINISH=1 or SUMS=1 another each; and
#   carat_catalog_standin(OUTPUT FILE)
# the same with words in the place of images, for who plans and needs no device.
#
# A row is: name source arch KEY=VALUE ...   A VALUE that is no number is the word KEY_VALUE.
#
# A row with PLAIN=1 has a second image, compiled with -DPLAIN=1: for products of which nothing is asked but their sums. One with
# FINISH=1 has one more, compiled with -DPLAIN=1 -DFINISHES=1: sums, scales, bias and activations. One with PLAIN=2 or FINISH=2 has
# that image, or both, and no whole one; with SUMS=1 it has one more for parts of k, compiled with -DPLAIN=1 -DSUMS=1.

set(CARAT_CATALOG ${PROJECT_SOURCE_DIR}/kernels/catalog.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CARAT_CATALOG})

# CARAT_ROWS: the rows, each "name;source;arch;KEY=VALUE;..." with its semicolons as |.
file(STRINGS ${CARAT_CATALOG} lines REGEX "^[a-z]")
set(CARAT_ROWS "")
foreach(line IN LISTS lines)
    string(REGEX REPLACE "[ \t]+" "|" row "${line}")
    list(APPEND CARAT_ROWS "${row}")
endforeach()

# The constants of a row as compiler definitions: -DKEY=VALUE and -DKERNEL_NAME=name; of PLAIN, FINISH and SUMS nothing,
# which are an image's.
function(carat_row_definitions row result)
    string(REPLACE "|" ";" fields "${row}")
    list(POP_FRONT fields name source arch)
    set(definitions -DKERNEL_NAME=${name})
    foreach(field IN LISTS fields)
        string(REGEX MATCH "^([A-Z0-9_]+)=(.+)$" matched "${field}")
        if(NOT matched)
            message(FATAL_ERROR "kernels/catalog.txt: '${field}' of ${name} is not KEY=VALUE")
        endif()
        set(key ${CMAKE_MATCH_1})
        set(value ${CMAKE_MATCH_2})
        if(NOT value MATCHES "^[0-9]+$")
            set(value ${key}_${value})
        endif()
        if(NOT key MATCHES "^(PLAIN|FINISH|SUMS)$")
            list(APPEND definitions -D${key}=${value})
        endif()
    endforeach()
    set(${result} "${definitions}" PARENT_SCOPE)
endfunction()

# The C initializer of a row; image, plain_image, finish_image and sums_image are the symbols of its images or "".
function(carat_row_initializer row image plain_image finish_image sums_image result)
    string(REPLACE "|" ";" fields "${row}")
    list(POP_FRONT fields name source arch)
    string(REGEX MATCH "^([0-9]+)(a?)$" matched "${arch}")
    set(specific 0)
    if(CMAKE_MATCH_2)
        set(specific 1)
    endif()
    set(text "    {.name = \"${name}\", .source = \"${source}\", .arch = ${CMAKE_MATCH_1}, .arch_specific = ${specific}")
    foreach(field IN LISTS fields)
        string(REGEX MATCH "^([A-Z0-9_]+)=(.+)$" matched "${field}")
        set(key ${CMAKE_MATCH_1})
        set(value ${CMAKE_MATCH_2})
        if(NOT value MATCHES "^[0-9]+$")
            set(value ${key}_${value})
        endif()
        string(TOLOWER ${key} member)
        string(APPEND text ", .${member} = ${value}")
    endforeach()
    foreach(kind image plain_image finish_image sums_image)
        if(${kind})
            string(APPEND text ", .${kind} = ${${kind}}, .${kind}_end = ${${kind}}_end")
        endif()
    endforeach()
    set(${result} "${text}},\n" PARENT_SCOPE)
endfunction()

# The architectures an image is compiled for, as -gencode options: its own and the later ones that the
# library ships machine code for, and PTX of the least for all that come after. Empty if nvcc has none.
#
# Of the plain rows only those that begin early use what 9.0 brought. Without it the PTX for 8.0 gives the same
# machine code, and nvcc one pass less to do.
function(carat_row_gencode row result)
    string(REPLACE "|" ";" fields "${row}")
    list(GET fields 2 arch)
    set(options "")
    # Blocks that share k store in each other's shared memory by an instruction that the assembler of nvcc 12.0 does not know.
    string(REGEX MATCH "K_SHARERS=" shares_k "${row}")
    if(shares_k AND CARAT_NVCC_VERSION VERSION_LESS 12.1)
        set(arch "")
    endif()
    if(arch MATCHES "a$")
        if("compute_${arch}" IN_LIST CARAT_NVCC_ARCHITECTURES)
            set(options -gencode=arch=compute_${arch},code=sm_${arch})
        endif()
    elseif(arch)
        foreach(target 75 80 90)
            if(target GREATER_EQUAL arch AND "compute_${target}" IN_LIST CARAT_NVCC_ARCHITECTURES)
                set(ptx ${target})
                if(target EQUAL 90 AND arch LESS 90 AND NOT "EARLY=1" IN_LIST fields)
                    set(ptx 80)
                endif()
                list(APPEND options -gencode=arch=compute_${ptx},code=sm_${target})
            endif()
        endforeach()
        if(options)
            list(APPEND options -gencode=arch=compute_${arch},code=compute_${arch})
        endif()
    endif()
    set(${result} "${options}" PARENT_SCOPE)
endfunction()

# Adds a command that compiles an image, and words that embed it as `symbol`, to the caller's outputs, assembly and
# declarations.
function(carat_embed_image title image source gencode definitions symbol)
    # What it includes, said in passing: for its own -MD nvcc goes through the headers once more, a twelfth of most images' time.
    # By a relative path, as -Xcompiler parts words at commas and spaces, which the directory may have.
    file(RELATIVE_PATH depended ${CMAKE_CURRENT_BINARY_DIR} ${image})
    add_custom_command(
        OUTPUT ${image}
        COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/kernel.cmake --
                ${CARAT_NVCC} ${CARAT_NVCC_HOST} -fatbin -O3 -std=c++17 ${CARAT_NVCC_STRICT}
                ${CARAT_NVCC_SMALL} ${CARAT_NVCC_QUICK} -I${PROJECT_SOURCE_DIR}/kernels/common ${gencode} ${definitions}
                -Xcompiler -MMD,-MF,${depended}.d,-MT,${depended}
                -o ${image} ${PROJECT_SOURCE_DIR}/kernels/${source}
        DEPENDS ${PROJECT_SOURCE_DIR}/kernels/${source} ${PROJECT_SOURCE_DIR}/cmake/kernel.cmake
        DEPFILE ${image}.d
        COMMENT "Kernel ${title}"
        VERBATIM)
    list(APPEND outputs ${image})
    set(outputs "${outputs}" PARENT_SCOPE)
    string(APPEND assembly
        "        \".balign 64\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n.incbin \\\"${image}\\\"\\n\"\n"
        "        \".hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n\"\n")
    set(assembly "${assembly}" PARENT_SCOPE)
    set(declarations "${declarations}extern const unsigned char ${symbol}[], ${symbol}_end[];\n" PARENT_SCOPE)
endfunction()

# Writes the table to `file`. With `images` set (a folder), adds a command a row that compiles its image
# there and embeds it; the list of images is stored in the variable `targets`.
function(carat_catalog_table file images targets)
    set(rows "")
    set(assembly "")
    set(declarations "")
    set(outputs "")
    set(left_out "")
    foreach(row IN LISTS CARAT_ROWS)
        string(REPLACE "|" ";" fields "${row}")
        list(POP_FRONT fields name source arch)
        set(symbol "")
        set(plain_symbol "")
        set(finish_symbol "")
        set(sums_symbol "")
        if(images)
            carat_row_gencode("${row}" gencode)
            if(gencode)
                carat_row_definitions("${row}" definitions)
                if(NOT "PLAIN=2" IN_LIST fields AND NOT "FINISH=2" IN_LIST fields)
                    set(symbol carat_image_${name})
                    carat_embed_image(${name} ${images}/${name}.fatbin ${source} "${gencode}" "${definitions}" ${symbol})
                endif()
                if("PLAIN=1" IN_LIST fields OR "PLAIN=2" IN_LIST fields)
                    set(plain_symbol carat_plain_image_${name})
                    carat_embed_image("${name}, plain" ${images}/${name}.plain.fatbin ${source} "${gencode}"
                                      "${definitions};-DPLAIN=1" ${plain_symbol})
                endif()
                if("FINISH=1" IN_LIST fields OR "FINISH=2" IN_LIST fields)
                    set(finish_symbol carat_finish_image_${name})
                    carat_embed_image("${name}, finishing" ${images}/${name}.finish.fatbin ${source} "${gencode}"
                                      "${definitions};-DPLAIN=1;-DFINISHES=1" ${finish_symbol})
                endif()
                if("SUMS=1" IN_LIST fields)
                    set(sums_symbol carat_sums_image_${name})
                    carat_embed_image("${name}, sums" ${images}/${name}.sums.fatbin ${source} "${gencode}"
                                      "${definitions};-DPLAIN=1;-DSUMS=1" ${sums_symbol})
                endif()
            else()
                list(APPEND left_out ${name})
            endif()
        endif()
        carat_row_initializer("${row}" "${symbol}" "${plain_symbol}" "${finish_symbol}" "${sums_symbol}" text)
        string(APPEND rows "${text}")
    endforeach()
    if(left_out)
        list(LENGTH left_out count)
        message(STATUS "This nvcc is too old for ${count} kernels, which are left out: ${left_out}")
    endif()
    set(content "/* Made by cmake/catalog.cmake from kernels/catalog.txt. */\n#include \"catalog.h\"\n\n")
    if(assembly)
        string(APPEND content "__asm__(\".section .rodata\\n\"\n${assembly}        \".previous\\n\");\n\n${declarations}\n")
    endif()
    string(APPEND content "const struct kernel carat_catalog[] = {\n${rows}};\n\n"
        "const int carat_catalog_count = sizeof(carat_catalog) / sizeof(carat_catalog[0]);\n")
    file(GENERATE OUTPUT ${file} CONTENT "${content}")
    set(${targets} "${outputs}" PARENT_SCOPE)
endfunction()

# Each stand-in image says which row it is of, and for which least architecture.
function(carat_catalog_standin file)
    set(rows "")
    set(images "")
    foreach(row IN LISTS CARAT_ROWS)
        string(REPLACE "|" ";" fields "${row}")
        list(POP_FRONT fields name source arch)
        string(REGEX MATCH "^[0-9]+" least "${arch}")
        set(whole "")
        set(plain "")
        set(finish "")
        set(sums "")
        set(kinds "")
        if(NOT "PLAIN=2" IN_LIST fields AND NOT "FINISH=2" IN_LIST fields)
            set(whole image_${name})
            list(APPEND kinds image)
        endif()
        if("PLAIN=1" IN_LIST fields OR "PLAIN=2" IN_LIST fields)
            set(plain plain_image_${name})
            list(APPEND kinds plain_image)
        endif()
        if("FINISH=1" IN_LIST fields OR "FINISH=2" IN_LIST fields)
            set(finish finish_image_${name})
            list(APPEND kinds finish_image)
        endif()
        if("SUMS=1" IN_LIST fields)
            set(sums sums_image_${name})
            list(APPEND kinds sums_image)
        endif()
        carat_row_initializer("${row}" "${whole}" "${plain}" "${finish}" "${sums}" text)
        string(APPEND rows "${text}")
        foreach(kind IN LISTS kinds)
            string(APPEND images
                "static const unsigned char ${kind}_${name}[] = \"stand-in image of ${name} for ${least}\";\n"
                "#define ${kind}_${name}_end (${kind}_${name} + sizeof ${kind}_${name})\n")
        endforeach()
    endforeach()
    file(GENERATE OUTPUT ${file} CONTENT
        "/* Made by cmake/catalog.cmake from kernels/catalog.txt. */\n#include \"catalog.h\"\n\n${images}
const struct kernel carat_catalog[] = {\n${rows}    {.name = NULL}};\n
const int carat_catalog_count = sizeof(carat_catalog) / sizeof(carat_catalog[0]) - 1;\n")
endfunction()
