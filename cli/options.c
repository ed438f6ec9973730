/* options.c - see options.h. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

int usage_error(const char *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "carat %s: ", command);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\nTry 'carat %s --help'.\n", command);
    va_end(list);
    return EXIT_USAGE;
}

int command_failed(const char *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "carat %s: ", command);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return EXIT_FAILED;
}

bool parse_count(const char *text, int64_t *value)
{
    /* strtoll alone would take "-1", " 1" and "+1". */
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *value = parsed;
    return true;
}

bool parse_real(const char *text, double *value)
{
    char *end;
    double parsed = strtod(text, &end);
    if (end == text || *end != '\0') {
        return false;
    }
    *value = parsed;
    return true;
}

int parse_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    int place = 0;
    for (const char *choice = choices; choice; place++) {
        const char *bar = strchr(choice, '|');
        size_t choice_length = bar ? (size_t)(bar - choice) : strlen(choice);
        if (length == choice_length && memcmp(choice, word, length) == 0) {
            return place;
        }
        choice = bar ? bar + 1 : NULL;
    }
    return -1;
}

bool parse_device(const char *text, carat_device_kind *kind, int *index)
{
    static const char prefix[] = "cuda:";
    int place = parse_choice("auto|cpu|cuda", text);
    *index = 0;
    if (place >= 0) {
        static const carat_device_kind kinds[] = {CARAT_DEVICE_AUTO, CARAT_DEVICE_CPU, CARAT_DEVICE_CUDA};
        *kind = kinds[place];
        return true;
    }
    int64_t number;
    if (strncmp(text, prefix, strlen(prefix)) != 0 || !parse_count(text + strlen(prefix), &number) ||
        number > INT_MAX) {
        return false;
    }
    *kind = CARAT_DEVICE_CUDA;
    *index = (int)number;
    return true;
}

/* Prints text with its first line behind `head`, in columns, and its other lines under the first. */
static void print_help_line(const char *head, const char *text)
{
    enum { COLUMN = 24 };
    int width = (int)strlen(head);
    if (width + 2 > COLUMN) {
        printf("%s\n%*s", head, COLUMN, "");
    } else {
        printf("%-*s", COLUMN, head);
    }
    for (const char *line = text;;) {
        size_t length = strcspn(line, "\n");
        printf("%.*s\n", (int)length, line);
        if (line[length] == '\0') {
            return;
        }
        line += length + 1;
        printf("%*s", COLUMN, "");
    }
}

static void print_help(const struct usage *usage)
{
    const char *head = "Usage: ";
    for (const char *line = usage->synopsis; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        printf("%s%.*s\n", head, (int)length, line);
        line += length + (line[length] == '\n');
        head = "       ";
    }
    printf("\n%s\n\nOptions:\n", usage->description);
    for (int i = 0; i < usage->option_count; i++) {
        const struct option *option = &usage->options[i];
        const char *value = option->kind == OPTION_CHOICE ? option->choices : option->value;
        char letter[8] = "    ";
        if (option->letter) {
            snprintf(letter, sizeof(letter), "-%c, ", option->letter);
        }
        char text[128];
        snprintf(text, sizeof(text), "  %s%s%s%s", letter, option->name, value ? " " : "",
                 value ? value : "");
        print_help_line(text, option->help);
    }
    print_help_line("      --help", "print this and end");
    if (usage->notes) {
        printf("\n%s\n", usage->notes);
    }
}

/*
 * The option that an argument names, as --name, --name=value or -o; NULL for none. *inline_value is what
 * stands behind the = sign, or NULL.
 */
static const struct option *find_option(const struct usage *usage, const char *argument,
                                        const char **inline_value)
{
    *inline_value = NULL;
    for (int i = 0; i < usage->option_count; i++) {
        const struct option *option = &usage->options[i];
        size_t length = strlen(option->name);
        if (option->letter && argument[1] == option->letter && argument[2] == '\0') {
            return option;
        }
        if (strncmp(argument, option->name, length) == 0) {
            if (argument[length] == '=') {
                *inline_value = argument + length + 1;
                return option;
            }
            if (argument[length] == '\0') {
                return option;
            }
        }
    }
    return NULL;
}

/* Stores the value; returns what the value should have been where it is not, else NULL. */
static const char *store(const struct option *option, const char *value)
{
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->target = true;
        return NULL;
    case OPTION_TEXT:
        *(const char **)option->target = value;
        return NULL;
    case OPTION_COUNT:
        return parse_count(value, (int64_t *)option->target) ? NULL : "a whole number, 0 or more";
    case OPTION_REAL:
        return parse_real(value, (double *)option->target) ? NULL : "a number";
    case OPTION_AMOUNT:
        /* NaN is no less than 0 either. */
        return parse_real(value, (double *)option->target) && *(double *)option->target >= 0
                   ? NULL
                   : "a number, 0 or more";
    case OPTION_CHOICE:
        break;
    }
    int place = parse_choice(option->choices, value);
    if (place < 0) {
        return option->choices;
    }
    *(int *)option->target = place;
    return NULL;
}

int options_parse(const struct usage *usage, int argc, char **argv, const char **operands, int most,
                  int *exit_code)
{
    const char *command = argv[0];
    int count = 0;
    bool options_over = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (options_over || argument[0] != '-' || argument[1] == '\0') {
            if (count == most) {
                *exit_code = usage_error(command, "one argument too many: '%s'", argument);
                return -1;
            }
            operands[count++] = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            options_over = true;
            continue;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help(usage);
            *exit_code = EXIT_OK;
            return -1;
        }
        const char *value;
        const struct option *option = find_option(usage, argument, &value);
        if (!option) {
            *exit_code = usage_error(command, "no such option: '%s'", argument);
            return -1;
        }
        if (option->kind == OPTION_FLAG && value) {
            *exit_code = usage_error(command, "%s takes no value", option->name);
            return -1;
        }
        if (option->kind != OPTION_FLAG && !value) {
            if (i + 1 == argc) {
                *exit_code = usage_error(command, "%s needs a value", argument);
                return -1;
            }
            value = argv[++i];
        }
        const char *wanted = store(option, value);
        if (wanted) {
            *exit_code = usage_error(command, "%s is '%s', but should be %s", option->name, value, wanted);
            return -1;
        }
        if (option->given) {
            *option->given = true;
        }
    }
    return count;
}
