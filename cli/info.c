/* info.c - carat info: every device and what it is limited by. */
#include <stdio.h>

#include "commands.h"

int command_info(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return EXIT_OK;
}
