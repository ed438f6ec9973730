/*
 * progress.h - one line on the terminal that says what is going on, replaced by the next and gone at the
 * end. Where the standard error is no terminal nothing is printed.
 */
#ifndef CARAT_CLI_PROGRESS_H
#define CARAT_CLI_PROGRESS_H

__attribute__((format(printf, 1, 2))) void progress(const char *format, ...);

/* Takes the line away. Called before anything else is printed. */
void progress_end(void);

#endif
