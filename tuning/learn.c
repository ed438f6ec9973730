/*
 * learn.c - what the build makes of a table of measured times: all that can be learned of it, as an image that the library
 * asks where it lies. To learn takes half a second, and no context has to wait for it.
 *
 *     learn TABLE IMAGE [BASE]        BASE is the image of the table to which this one adds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "status.h"
#include "tuning.h"

/* This program makes tables, and has none but that to which the one it makes adds: all zero it is of no device. */
static _Alignas(64) unsigned char base[64 << 20];
const unsigned char *const carat_tunings[] = {base, NULL};

static bool load_base(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(base, 1, sizeof(base), file) : 0;
    bool whole = file && length > 0 && length < sizeof(base) && !ferror(file);
    if (file) {
        fclose(file);
    }
    return whole;
}

/* Keeps the head, which is whole where the first time stands. */
static carat_status keep_head(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    (void)line;
    memcpy(context, head, sizeof(*head));
    return CARAT_OK;
}

static carat_status learn(const char *path, const char *image)
{
    struct tuning_head head = {.clock = 0};
    struct tuning_head read;
    struct tuning_table *table = NULL;
    char *text;
    size_t length;
    CARAT_TRY(tuning_load(path, &text, &length));
    carat_status status = tuning_read(path, text, length, keep_head, &head, &read);
    const struct device_traits traits = {.kind = CARAT_DEVICE_CUDA,
                                         .compute_capability = head.capability,
                                         .multiprocessors = head.multiprocessors,
                                         .memory_promised =
                                             memory_share_of(head.memory, head.clock, head.multiprocessors),
                                         .name = head.device};
    if (status == CARAT_OK) {
        status = tuning_parse(&traits, path, text, length, &table);
    }
    free(text);
    CARAT_TRY(status);
    FILE *file = table ? fopen(image, "wb") : NULL;
    bool written = file && tuning_write_image(table, &traits, file);
    written = file && fclose(file) == 0 && written;
    if (!written) {
        fprintf(stderr, "learn: %s\n", table ? "cannot write the image" : "there is nothing in the table");
    }
    tuning_close(table);
    return written ? CARAT_OK : CARAT_INVALID_ARGUMENT;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: learn TABLE IMAGE [BASE]\n");
        return 2;
    }
    if (argc == 4 && !load_base(argv[3])) {
        fprintf(stderr, "learn: %s cannot be read\n", argv[3]);
        return 1;
    }
    if (learn(argv[1], argv[2]) != CARAT_OK) {
        fprintf(stderr, "learn: %s\n", carat_last_message());
        return 1;
    }
    return 0;
}
