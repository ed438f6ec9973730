/* npy.c - see npy.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAGIC_BYTES = 6,
    MOST_DIMENSIONS = 32,        /* as many as NumPy 1 allows; NumPy 2 allows 64 */
    MOST_HEADER_BYTES = 1 << 20, /* NumPy itself writes less than 200 for what has two dimensions */
    HEADER_ALIGNMENT = 64,
    TYPE_BYTES = 32
};
static const char magic[MAGIC_BYTES] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* NumPy's names of the types, without the sign of the byte order; of those it has not, of their bits. */
static const struct {
    const char *name;
    carat_type type;
} types[] = {
    {"f4", CARAT_F32}, {"f8", CARAT_F64},  {"f2", CARAT_F16},  {"i4", CARAT_S32},
    {"i1", CARAT_S8},  {"u2", CARAT_BF16}, {"u1", CARAT_E4M3}, {"u1", CARAT_E5M2},
};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

/* Writes "path: " and the message, and returns false. */
__attribute__((format(printf, 3, 4))) static bool refuse(char message[NPY_MESSAGE_BYTES], const char *path,
                                                         const char *format, ...)
{
    int length = snprintf(message, NPY_MESSAGE_BYTES, "%.400s: ", path);
    va_list list;
    va_start(list, format);
    vsnprintf(message + length, NPY_MESSAGE_BYTES - (size_t)length, format, list);
    va_end(list);
    return false;
}

bool matrix_fits(carat_type type, int64_t rows, int64_t columns)
{
    int64_t bytes;
    return !__builtin_mul_overflow(rows, columns, &bytes) &&
           !__builtin_mul_overflow(bytes, (int64_t)carat_type_size(type), &bytes) &&
           bytes <= INT64_MAX - (int64_t)2 * MOST_HEADER_BYTES; /* so that header and elements add up, too */
}

size_t matrix_bytes(const struct matrix *matrix)
{
    return (size_t)matrix->rows * (size_t)matrix->columns * carat_type_size(matrix->type);
}

int64_t matrix_ld(const struct matrix *matrix)
{
    int64_t ld = matrix->order == CARAT_ROW_MAJOR ? matrix->columns : matrix->rows;
    return ld > 0 ? ld : 1;
}

/* ---- The header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ------------------------ */

struct header {
    char descr[TYPE_BYTES];
    bool fortran_order;
    int dimensions;
    int64_t shape[MOST_DIMENSIONS];
};

/* What is left of the header's text. */
struct cursor {
    const char *at;
    const char *end;
};

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at) && *cursor->at != '\0') {
        cursor->at++;
    }
}

/* Takes the word if it comes next, after any space. */
static bool take(struct cursor *cursor, const char *word)
{
    skip_space(cursor);
    size_t length = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) {
        return false;
    }
    cursor->at += length;
    return true;
}

/* A string in either kind of quotes, without escapes, short enough for text. */
static bool take_string(struct cursor *cursor, char *text, size_t text_bytes)
{
    skip_space(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) {
        return false;
    }
    char quote = *cursor->at++;
    size_t length = 0;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        unsigned char letter = (unsigned char)*cursor->at++;
        if (letter == '\\' || letter < ' ' || letter > '~' || length + 1 == text_bytes) {
            return false;
        }
        text[length++] = (char)letter;
    }
    text[length] = '\0';
    if (cursor->at == cursor->end) {
        return false;
    }
    cursor->at++;
    return true;
}

/* A whole number >= 0 that fits; Python 2 wrote some as 3L. */
static bool take_count(struct cursor *cursor, int64_t *value)
{
    skip_space(cursor);
    const char *begin = cursor->at;
    int64_t parsed = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (__builtin_mul_overflow(parsed, 10, &parsed) ||
            __builtin_add_overflow(parsed, *cursor->at - '0', &parsed)) {
            return false;
        }
        cursor->at++;
    }
    if (cursor->at == begin) {
        return false;
    }
    if (cursor->at < cursor->end && *cursor->at == 'L') {
        cursor->at++;
    }
    *value = parsed;
    return true;
}

/* (), (3,), (3, 4), (3, 4,) */
static bool take_shape(struct cursor *cursor, struct header *header)
{
    if (!take(cursor, "(")) {
        return false;
    }
    header->dimensions = 0;
    while (!take(cursor, ")")) {
        if (header->dimensions == MOST_DIMENSIONS ||
            !take_count(cursor, &header->shape[header->dimensions])) {
            return false;
        }
        header->dimensions++;
        if (!take(cursor, ",")) {
            return take(cursor, ")");
        }
    }
    return true;
}

/* Returns what is wrong with the header, or NULL. */
static const char *parse_header(const char *text, size_t length, struct header *header)
{
    struct cursor cursor = {text, text + length};
    bool descr = false, order = false, shape = false;
    if (!take(&cursor, "{")) {
        return "its header is no dictionary";
    }
    while (!take(&cursor, "}")) {
        char key[TYPE_BYTES];
        if (!take_string(&cursor, key, sizeof(key)) || !take(&cursor, ":")) {
            return "its header is no dictionary";
        }
        if (strcmp(key, "descr") == 0 && !descr) {
            descr = true;
            if (take(&cursor, "[")) {
                return "its elements are records, not numbers";
            }
            if (!take_string(&cursor, header->descr, sizeof(header->descr))) {
                return "its header has no readable 'descr'";
            }
        } else if (strcmp(key, "fortran_order") == 0 && !order) {
            order = true;
            header->fortran_order = take(&cursor, "True");
            if (!header->fortran_order && !take(&cursor, "False")) {
                return "its header has no readable 'fortran_order'";
            }
        } else if (strcmp(key, "shape") == 0 && !shape) {
            shape = true;
            if (!take_shape(&cursor, header)) {
                return "its header has no readable 'shape', or one with a number beyond 2^63";
            }
        } else {
            return "its header has a key twice, or one that is not NumPy's";
        }
        if (!take(&cursor, ",")) {
            if (!take(&cursor, "}")) {
                return "its header is no dictionary";
            }
            break;
        }
    }
    skip_space(&cursor);
    if (cursor.at != cursor.end) {
        return "its header goes on after the dictionary";
    }
    return descr && order && shape ? NULL : "its header lacks one of 'descr', 'fortran_order' and 'shape'";
}

/* Whether NumPy knows of a type no more than how many bits it has. */
static bool is_raw(carat_type type) { return type == CARAT_BF16 || type == CARAT_E4M3 || type == CARAT_E5M2; }

/* The type of the elements by NumPy's name for it. */
static bool find_type(const char *path, const char *descr, carat_type raw, carat_type *type,
                      char message[NPY_MESSAGE_BYTES])
{
    const char *name = descr;
    if (*name != '\0' && strchr("<>|=", *name)) {
        name++;
    }
    bool known = false;
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) != 0) {
            continue;
        }
        known = true;
        if (descr[0] == '>' && carat_type_size(types[i].type) > 1) {
            return refuse(message, path,
                          "its elements are big-endian (%s); in NumPy, a.astype('<%s') turns them", descr,
                          name);
        }
        if (!is_raw(types[i].type) || types[i].type == raw) {
            *type = types[i].type;
            return true;
        }
    }
    if (known) {
        bool bytes = strcmp(name, "u1") == 0;
        return refuse(message, path,
                      "its elements are %s; with --type %s (of B, C and the bias: --type-b, --type-d, "
                      "--bias-type) they are taken for %s",
                      descr, bytes ? "e4m3 or e5m2" : "bf16", bytes ? "such floats" : "bf16");
    }
    return refuse(
        message, path,
        "its elements are %s; Carat multiplies f2, f4, f8, i4, i1, u2 as bf16, and u1 as e4m3 or e5m2",
        descr);
}

/* ---- Reading ---------------------------------------------------------------------------------------- */

/* Reads bytes from offset on; false at the end of the file or an error, with errno 0 for the end. */
static bool read_at(int descriptor, void *to, size_t bytes, int64_t offset)
{
    char *at = (char *)to;
    while (bytes > 0) {
        size_t step = bytes < 1u << 30 ? bytes : 1u << 30; /* Linux reads no more than 2 GiB at once */
        ssize_t got = pread(descriptor, at, step, offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            errno = got < 0 ? errno : 0;
            return false;
        }
        at += got;
        bytes -= (size_t)got;
        offset += got;
    }
    return true;
}

static bool read_failed(const char *path, char message[NPY_MESSAGE_BYTES])
{
    return refuse(message, path, "%s", errno ? strerror(errno) : "it became shorter while it was read");
}

/* Where the header's text lies in the file. */
static bool find_header(const char *path, int descriptor, int64_t size, int64_t *offset, int64_t *length,
                        char message[NPY_MESSAGE_BYTES])
{
    unsigned char head[MAGIC_BYTES + 2 + 4] = {0};
    size_t head_bytes = size < (int64_t)sizeof(head) ? (size_t)size : sizeof(head);
    if (!read_at(descriptor, head, head_bytes, 0)) {
        return read_failed(path, message);
    }
    if (memcmp(head, magic, MAGIC_BYTES) != 0) {
        return refuse(message, path, "it is no .npy file");
    }
    const unsigned char *bytes = head + MAGIC_BYTES + 2;
    int version = head[MAGIC_BYTES];
    if (version == 1) {
        *offset = MAGIC_BYTES + 2 + 2;
        *length = bytes[0] | bytes[1] << 8;
    } else if (version == 2 || version == 3) {
        *offset = MAGIC_BYTES + 2 + 4;
        *length = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (int64_t)bytes[3] << 24;
    } else {
        return refuse(message, path, "its format is version %d.%d; Carat reads 1, 2 and 3", version,
                      head[MAGIC_BYTES + 1]);
    }
    int64_t end = *offset + *length;
    if (size < end) {
        return refuse(message, path, "it is truncated: %lld bytes, and the header alone ends at %lld",
                      (long long)size, (long long)end);
    }
    if (*length > MOST_HEADER_BYTES) {
        return refuse(message, path, "its header has %lld bytes, more than %d", (long long)*length,
                      MOST_HEADER_BYTES);
    }
    return true;
}

static bool read_header(const char *path, int descriptor, int64_t offset, int64_t length,
                        struct header *header, char message[NPY_MESSAGE_BYTES])
{
    char *text = (char *)malloc((size_t)length + 1);
    if (!text) {
        return refuse(message, path, "no memory for its header");
    }
    const char *wrong = NULL;
    bool read = read_at(descriptor, text, (size_t)length, offset);
    if (read) {
        wrong = parse_header(text, (size_t)length, header);
    }
    free(text);
    if (!read) {
        return read_failed(path, message);
    }
    return wrong ? refuse(message, path, "%s", wrong) : true;
}

/* "(3, 4, 5)" */
static void shape_text(const struct header *header, char *text, size_t text_bytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < header->dimensions && length < text_bytes; i++) {
        length += (size_t)snprintf(text + length, text_bytes - length, "%s%lld", i ? ", " : "",
                                   (long long)header->shape[i]);
    }
}

/* Fills the matrix from the header, and compares its bytes with those that the file has. */
static bool describe(const char *path, const struct header *header, carat_type raw,
                     enum npy_shape wanted_shape, int64_t data_bytes, struct matrix *matrix,
                     char message[NPY_MESSAGE_BYTES])
{
    if (!find_type(path, header->descr, raw, &matrix->type, message)) {
        return false;
    }
    bool vector = wanted_shape == NPY_VECTOR && header->dimensions == 1;
    if (header->dimensions != 2 && !vector) {
        char shape[256];
        shape_text(header, shape, sizeof(shape));
        return refuse(message, path, "its shape (%s) has %d dimension%s; a matrix has 2", shape,
                      header->dimensions, header->dimensions == 1 ? "" : "s");
    }
    matrix->rows = header->shape[0];
    matrix->columns = vector ? 1 : header->shape[1];
    if (wanted_shape == NPY_VECTOR && matrix->rows != 1 && matrix->columns != 1) {
        return refuse(message, path, "it is %lld x %lld, but should be one row or one column",
                      (long long)matrix->rows, (long long)matrix->columns);
    }
    matrix->order = header->fortran_order ? CARAT_COLUMN_MAJOR : CARAT_ROW_MAJOR;
    matrix->elements = NULL;
    if (!matrix_fits(matrix->type, matrix->rows, matrix->columns)) {
        return refuse(message, path, "%lld x %lld elements of %zu bytes are more than can be counted",
                      (long long)matrix->rows, (long long)matrix->columns, carat_type_size(matrix->type));
    }
    int64_t wanted = (int64_t)matrix_bytes(matrix);
    if (data_bytes != wanted) {
        return refuse(message, path,
                      "%s: %lld x %lld elements of %zu bytes are %lld bytes, but %lld follow the header",
                      data_bytes < wanted ? "it is truncated" : "it has trailing bytes",
                      (long long)matrix->rows, (long long)matrix->columns, carat_type_size(matrix->type),
                      (long long)wanted, (long long)data_bytes);
    }
    return true;
}

bool npy_open(const char *path, carat_type raw, enum npy_shape shape, struct npy_file *file,
              char message[NPY_MESSAGE_BYTES])
{
    file->descriptor = -1;
    /* O_NONBLOCK: a pipe without a writer would be waited for, only to be refused. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return refuse(message, path, "%s", strerror(errno));
    }
    struct stat status;
    int64_t length = 0;
    struct header header = {.dimensions = 0};
    bool good = true;
    if (fstat(descriptor, &status) != 0) {
        good = refuse(message, path, "%s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        good = refuse(message, path, "it is no regular file");
    }
    good = good && find_header(path, descriptor, status.st_size, &file->data_offset, &length, message) &&
           read_header(path, descriptor, file->data_offset, length, &header, message);
    if (good) {
        file->data_offset += length;
        good =
            describe(path, &header, raw, shape, status.st_size - file->data_offset, &file->matrix, message);
    }
    if (!good) {
        close(descriptor);
        return false;
    }
    file->descriptor = descriptor;
    return true;
}

bool npy_load(const char *path, const struct npy_file *file, char message[NPY_MESSAGE_BYTES])
{
    if (!read_at(file->descriptor, file->matrix.elements, matrix_bytes(&file->matrix), file->data_offset)) {
        return read_failed(path, message);
    }
    return true;
}

void npy_close(struct npy_file *file)
{
    if (file->descriptor >= 0) {
        close(file->descriptor);
        file->descriptor = -1;
    }
}

/* ---- Writing ---------------------------------------------------------------------------------------- */

/*
 * The place that path leads to, in memory the caller frees: a link stays a link, and its target is what is
 * replaced. NULL with the reason where nothing can be written there.
 */
static char *resolve(const char *path, char message[NPY_MESSAGE_BYTES])
{
    struct stat status;
    char *place;
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode)) {
            refuse(message, path, "it is there, and no regular file");
            return NULL;
        }
        place = realpath(path, NULL);
    } else if (errno != ENOENT) {
        refuse(message, path, "%s", strerror(errno));
        return NULL;
    } else {
        place = strdup(path);
    }
    if (!place) {
        refuse(message, path, "%s", strerror(errno));
    }
    return place;
}

bool npy_can_save(const char *path, char message[NPY_MESSAGE_BYTES])
{
    char *place = resolve(path, message);
    if (!place) {
        return false;
    }
    char *slash = strrchr(place, '/');
    const char *directory = slash ? place : ".";
    if (slash) {
        slash[slash == place] = '\0'; /* of "/C.npy" the slash stays */
    }
    bool good = access(directory, W_OK | X_OK) == 0 ||
                refuse(message, path, "cannot write in its directory: %s", strerror(errno));
    free(place);
    return good;
}

static bool write_all(int descriptor, const void *from, size_t bytes)
{
    const char *at = (const char *)from;
    while (bytes > 0) {
        ssize_t put = write(descriptor, at, bytes < 1u << 30 ? bytes : 1u << 30);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return false;
        }
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* Fills text with a version 1 header, padded so that the elements begin at a multiple of 64 bytes. */
static size_t make_header(const struct matrix *matrix, char text[256])
{
    const char *name = "";
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (types[i].type == matrix->type) {
            name = types[i].name;
        }
    }
    size_t prefix = MAGIC_BYTES + 2 + 2;
    size_t length = prefix;
    length += (size_t)snprintf(text + prefix, 256 - prefix,
                               "{'descr': '%s%s', 'fortran_order': %s, 'shape': (%lld, %lld), }",
                               carat_type_size(matrix->type) == 1 ? "|" : "<", name,
                               matrix->order == CARAT_COLUMN_MAJOR ? "True" : "False",
                               (long long)matrix->rows, (long long)matrix->columns);
    while ((length + 1) % HEADER_ALIGNMENT != 0) {
        text[length++] = ' ';
    }
    text[length++] = '\n';
    memcpy(text, magic, MAGIC_BYTES);
    text[MAGIC_BYTES] = 1;
    text[MAGIC_BYTES + 1] = 0;
    text[MAGIC_BYTES + 2] = (char)((length - prefix) & 0xff);
    text[MAGIC_BYTES + 3] = (char)((length - prefix) >> 8);
    return length;
}

bool npy_save(const char *path, const struct matrix *matrix, char message[NPY_MESSAGE_BYTES])
{
    char *place = resolve(path, message);
    if (!place) {
        return false;
    }
    size_t temporary_bytes = strlen(place) + sizeof(".XXXXXX");
    char *temporary = (char *)malloc(temporary_bytes);
    if (!temporary) {
        free(place);
        return refuse(message, path, "no memory for its name");
    }
    snprintf(temporary, temporary_bytes, "%s.XXXXXX", place);
    bool good = false;
    int descriptor = mkstemp(temporary);
    if (descriptor >= 0) {
        char header[256];
        size_t header_bytes = make_header(matrix, header);
        mode_t mask = umask(0); /* mkstemp gives 0600; the file is to have what a plain open gives */
        umask(mask);
        good = fchmod(descriptor, 0666 & ~mask) == 0 && write_all(descriptor, header, header_bytes) &&
               write_all(descriptor, matrix->elements, matrix_bytes(matrix));
        good = close(descriptor) == 0 && good;
        good = good && rename(temporary, place) == 0;
        if (!good) {
            int reason = errno;
            unlink(temporary);
            errno = reason;
        }
    }
    if (!good) {
        refuse(message, path, "%s", strerror(errno));
    }
    free(temporary);
    free(place);
    return good;
}
