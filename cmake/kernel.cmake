# Runs the command behind `--` that compiles a kernel, and refuses what ptxas only mentions: a matrix instruction
# that it serialized, registers that it did not let a warpgroup have. Such a kernel is right, but slow.
#
#   cmake -P kernel.cmake -- nvcc ...
set(command "")
set(begun FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
    if(begun)
        list(APPEND command "${CMAKE_ARGV${i}}")
    elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
        set(begun TRUE)
    endif()
endforeach()
execute_process(COMMAND ${command} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(said)
    message("${said}")
endif()
if(failed)
    message(FATAL_ERROR "the compiler failed")
endif()
if(said MATCHES "Potential Performance Loss|serialized|setmaxnreg[^\n]*ignored")
    # The image is there, and newer than its source: a second build would take it for a good one.
    list(FIND command -o image)
    math(EXPR image "${image} + 1")
    list(GET command ${image} image)
    file(REMOVE ${image})
    message(FATAL_ERROR "ptxas made this kernel slow: see above")
endif()
