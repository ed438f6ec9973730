/* main.c - the program carat: finds the subcommand and hands the rest of the line to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carat/carat.h"
#include "commands.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"info", command_info, "show the devices and their limits"},
    {"gemm", command_gemm, "multiply two matrices from NumPy files, or generated ones"},
    {"ladder", command_ladder, "run the ladder of kernels, from the first one writes to the library's own"},
    {"bench", command_bench, "time the shapes of a file beside other libraries"},
    {"verify", command_verify, "measure the errors of every kernel over families of input"},
    {"accuracy", command_accuracy, "measure how far each setting is from the true product, beside others"},
    {"explain", command_explain, "say how a product would be computed, and why"},
    {"ceiling", command_ceiling, "measure what this device does at most"},
    {"tune", command_tune, "measure the kernels, so that the best one is chosen on this device"},
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *stream)
{
    fprintf(stream, "Usage: carat COMMAND [options]\n\n"
                    "Matrix multiplication on NVIDIA GPUs and on the CPU.\n\nCommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s%s\n", commands[i].name, commands[i].summary);
    }
    fprintf(stream, "\nOptions:\n"
                    "  --help    print this and end\n"
                    "  --version print the version and end\n\n"
                    "'carat COMMAND --help' explains a command. The exit code is 0 for success, 1 where an\n"
                    "input was refused, a check failed or the device did, and 2 for a wrong command line.\n");
}

/* Output that did not reach its place (a full disk, say) must not look like success. */
static int finish(int exit_code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("carat: standard output");
        return exit_code == EXIT_OK ? EXIT_FAILED : exit_code;
    }
    return exit_code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return finish(EXIT_OK);
    }
    if (strcmp(name, "--version") == 0) {
        printf("carat %s\n", carat_version());
        return finish(EXIT_OK);
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return finish(commands[i].run(argc - 1, argv + 1));
        }
    }
    fprintf(stderr, "carat: no such command: '%s'\nTry 'carat --help'.\n", name);
    return EXIT_USAGE;
}
