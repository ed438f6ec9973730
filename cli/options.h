/*
 * options.h - the command line of a subcommand, described once in a table: it is parsed by it and its
 * --help is printed from it.
 */
#ifndef CARAT_CLI_OPTIONS_H
#define CARAT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

enum option_kind {
    OPTION_FLAG,   /* no value; target is a bool *, set to true */
    OPTION_TEXT,   /* target is a const char ** */
    OPTION_COUNT,  /* a whole number >= 0; target is an int64_t * */
    OPTION_REAL,   /* target is a double * */
    OPTION_AMOUNT, /* a number >= 0, such as a time; target is a double * */
    OPTION_CHOICE  /* one of the words in choices; target is an int *, set to the word's place */
};

struct option {
    const char *name; /* "--trans-a" */
    char letter;      /* 'o' for -o; 0 for none */
    enum option_kind kind;
    void *target;        /* keeps its value where the option is not given: set the default there */
    const char *value;   /* what the help calls the value: "FILE"; NULL for a flag and a choice */
    const char *help;    /* one line, or several with \n */
    const char *choices; /* OPTION_CHOICE: "auto|cpu|cuda" */
    bool *given;         /* set to true when the option is there; NULL where nobody asks */
};

struct usage {
    const char *synopsis;    /* "carat gemm [options] A.npy B.npy -o C.npy"; more lines with \n */
    const char *description; /* what the command does, a few lines */
    const struct option *options;
    int option_count;
    const char *notes; /* after the options: examples; NULL for none */
};

/*
 * Parses argv[1] and on. What is no option is an operand, and goes to operands, at most most of them.
 * Returns how many. Where the command is to end now, because --help was printed or the line is wrong and a
 * message was, it returns -1 and sets *exit_code.
 */
int options_parse(const struct usage *usage, int argc, char **argv, const char **operands, int most,
                  int *exit_code);

/*
 * For what the table cannot check: prints "carat COMMAND: message", says where the help is, and
 * returns EXIT_USAGE.
 */
__attribute__((format(printf, 2, 3))) int usage_error(const char *command, const char *format, ...);

/* Prints "carat COMMAND: message" and returns EXIT_FAILED. */
__attribute__((format(printf, 2, 3))) int command_failed(const char *command, const char *format, ...);

/* A whole number >= 0 that fills the text; false where it is none or does not fit. */
bool parse_count(const char *text, int64_t *value);

/* A number that fills the text; false where it is none. */
bool parse_real(const char *text, double *value);

/* The place of a word in "one|two|three", or -1. */
int parse_choice(const char *choices, const char *word);

/* "auto", "cpu", "cuda" or "cuda:2"; false for anything else. */
bool parse_device(const char *text, carat_device_kind *kind, int *index);

#endif
