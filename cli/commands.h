/*
 * commands.h - the subcommands of the program carat. Each is one function in the file of its name and
 * one row of the table in main.c.
 *
 * argv[0] is the subcommand's name. The return value is the program's exit code.
 */
#ifndef CARAT_CLI_COMMANDS_H
#define CARAT_CLI_COMMANDS_H

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1, /* an input refused, a check that failed, an error while running */
    EXIT_USAGE = 2   /* the command line itself is wrong */
};

int command_info(int argc, char **argv);
int command_gemm(int argc, char **argv);
int command_ladder(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_accuracy(int argc, char **argv);
int command_ceiling(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_tune(int argc, char **argv);

#endif
